/*!
Peaks of devices: how many operations and bytes for each second they can do at most.

Data-centre cards are looked up in a table of published peaks; processors are calibrated. The same loops show how far the
same work takes a different time ([`probe`]). A peak is of the format of
numbers that a case computes in, so that one which the table lacks is a gap, and never the peak of another format.
*/

mod calibration;
mod kernels;
mod noise;
mod table;

use std::collections::BTreeMap;

use host_record::{Calibration, CaseSpec, Gap, NotMeasured, PeakSource, Peaks};

pub use calibration::{CalibrationError, calibrate};
pub use noise::probe;
pub use table::{Card, TABLE};

/// Returns the peaks for a case, in the format that its session reports under `used`. `None` if its device is a
/// processor that was not calibrated.
#[must_use]
pub fn of(
    case: &CaseSpec,
    used: &BTreeMap<String, String>,
    calibration: Option<&Result<Calibration, Gap>>,
) -> Option<Result<Peaks, Gap>> {
    let format = format(case, used);
    let device = &case.device;
    if device.kind == "cpu" {
        let calibration = calibration?.as_ref();
        return Some(calibration.map(|it| of_processor(&format, it)).map_err(Clone::clone));
    }
    let card = TABLE.iter().find(|card| card.names.contains(&device.name.as_str()));
    let Some(card) = card else {
        return Some(Err(NotMeasured::NoPeaks { device: device.name.clone() }.into()));
    };
    let compute = card.compute.iter().find(|(known, _)| *known == format);
    Some(Ok(Peaks {
        flops_per_second: compute.map(|(_, tera)| tera * 1e12).ok_or_else(|| {
            let known = card.compute.iter().map(|(known, _)| (*known).to_owned()).collect();
            no_peak(card.names[0], &format, known)
        }),
        bytes_per_second: Ok(card.gigabytes_per_second * 1e9),
        format,
        source: PeakSource::Table {
            device: card.names[0].into(),
            publication: card.publication.into(),
        },
    }))
}

/// Returns the format in which a case computes: that of its session, or else the one that was asked for. Products of
/// fp32 in tensor cores are of tf32.
fn format(case: &CaseSpec, used: &BTreeMap<String, String>) -> String {
    let asked = case.key.precision.name();
    let format = used.get("precision").map_or(asked, String::as_str);
    let has_tf32 = used.get("tf32").is_some_and(|value| value == "true");
    if format == "fp32" && has_tf32 { "tf32" } else { format }.to_owned()
}

fn of_processor(format: &str, calibration: &Calibration) -> Peaks {
    let compute = calibration.compute.iter().find(|(precision, _)| precision.name() == format);
    Peaks {
        flops_per_second: compute.map(|(_, peak)| peak.flops_per_second).ok_or_else(|| {
            let known = calibration.compute.keys().map(|known| known.name().to_owned());
            no_peak("the processor", format, known.collect())
        }),
        bytes_per_second: calibration.bytes_per_second.clone(),
        format: format.to_owned(),
        source: PeakSource::Calibrated {
            threads: calibration.threads,
            instructions: compute.map(|(_, peak)| peak.instructions.clone()),
            buffer_bytes: calibration.buffer_bytes,
        },
    }
}

fn no_peak(device: &str, format: &str, known: Vec<String>) -> Gap {
    let (device, format) = (device.to_owned(), format.to_owned());
    NotMeasured::NoPeakOfFormat { device, format, known }.into()
}

#[cfg(test)]
mod tests {
    use host_record::{ComputePeak, Precision};

    use super::*;

    fn case(kind: &str, name: &str, precision: Precision) -> CaseSpec {
        let text = serde_json::json!({
            "id": "0", "index": 0,
            "key": host_record::CaseKey {
                precision, ..host_record::CaseKey::new("m", "b", "d")
            },
            "model": { "name": "m.onnx", "sha256": "" },
            "plugin": { "id": "b", "version": "0.1.0", "sha256": "" },
            "device": {
                "id": "d", "kind": kind, "name": name, "memory-bytes": null, "precisions": [],
            },
            "threads": null,
            "inputs": { "synthetic": {} },
            "measure": host_record::MeasureSettings::default(),
            "seed": 0,
        });
        serde_json::from_value(text).expect("a case")
    }

    fn peaks(case: &CaseSpec, used: &[(&str, &str)]) -> Option<Result<Peaks, Gap>> {
        let used = used.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        of(case, &used.collect(), None)
    }

    #[test]
    fn a_card_has_the_peak_of_the_format_in_which_the_case_computes() {
        let h200 = |precision| case("gpu", "NVIDIA H200", precision);
        let found = |case: &CaseSpec, used| peaks(case, used).expect("a card").expect("known");
        let fp32 = found(&h200(Precision::Fp32), &[("tf32", "false")]);
        assert_eq!((fp32.flops_per_second, fp32.format.as_str()), (Ok(67e12), "fp32"));
        assert_eq!(fp32.bytes_per_second, Ok(4.8e12));
        let tf32 = found(&h200(Precision::Fp32), &[("tf32", "true")]);
        assert_eq!((tf32.flops_per_second, tf32.format.as_str()), (Ok(494.5e12), "tf32"));
        // The session's own word counts.
        let fp16 = found(&h200(Precision::Fp32), &[("precision", "fp16"), ("tf32", "true")]);
        assert_eq!((fp16.flops_per_second, fp16.format.as_str()), (Ok(989.5e12), "fp16"));
        let int8 = found(&h200(Precision::Int8), &[]);
        assert_eq!(int8.flops_per_second, Ok(1979e12));
    }

    #[test]
    fn what_the_table_lacks_is_a_gap_that_says_so() {
        let told = |kind, name, precision| match peaks(&case(kind, name, precision), &[])
            .expect("something is stated")
        {
            Ok(peaks) => peaks.flops_per_second.expect_err("a gap").to_string(),
            Err(gap) => gap.to_string(),
        };
        assert_eq!(
            told("gpu", "Tesla V100-SXM2-16GB", Precision::Bf16),
            "the peak of Tesla V100-SXM2-16GB in bf16 is not known, only in fp32 and fp16"
        );
        let part = "NVIDIA H200 MIG 1g.18gb";
        assert_eq!(
            told("gpu", part, Precision::Fp16),
            format!("no table has the peaks of `{part}`, and only processors are calibrated")
        );
        assert_eq!(peaks(&case("cpu", "AMD EPYC", Precision::Fp32), &[]), None);
    }

    #[test]
    fn a_processor_has_what_was_calibrated() {
        let gap: Gap = NotMeasured::CalibrationFailed { reason: "it is busy".into() }.into();
        let peak = ComputePeak { flops_per_second: 1e11, instructions: "AVX2 FMA".into() };
        let calibration = Calibration {
            threads: 2,
            compute: [(Precision::Fp32, peak)].into(),
            bytes_per_second: Err(gap.clone()),
            buffer_bytes: 1 << 28,
        };
        let of = |precision| {
            let case = case("cpu", "AMD EPYC", precision);
            of(&case, &BTreeMap::new(), Some(&Ok(calibration.clone()))).expect("it is calibrated")
        };
        let fp32 = of(Precision::Fp32).expect("peaks");
        assert_eq!((fp32.flops_per_second, fp32.bytes_per_second), (Ok(1e11), Err(gap.clone())));
        assert_eq!(
            fp32.source.to_string(),
            "calibrated with 2 threads (AVX2 FMA; reads of 256 MiB)"
        );
        let int8 = of(Precision::Int8).expect("peaks");
        assert_eq!(
            int8.flops_per_second.expect_err("a gap").to_string(),
            "the peak of the processor in int8 is not known, only in fp32"
        );
        let failed = super::of(
            &case("cpu", "AMD EPYC", Precision::Fp32),
            &BTreeMap::new(),
            Some(&Err(gap.clone())),
        );
        assert_eq!(failed, Some(Err(gap)));
    }

    #[test]
    fn the_reference_has_the_table() {
        let page = include_str!("../../../docs/reference/costs.md");
        for card in TABLE {
            let format = |wanted| {
                let found = card.compute.iter().find(|(format, _)| *format == wanted);
                found.map_or("—".to_owned(), |(_, tera)| tera.to_string())
            };
            let formats = ["fp32", "tf32", "fp16", "bf16", "int8"].map(format).join(" | ");
            let (names, bandwidth) = (card.names.join(", "), card.gigabytes_per_second);
            let line = format!("| {names} | {formats} | {bandwidth} | {} |", card.publication);
            assert!(page.contains(&line), "put this into docs/reference/costs.md:\n{line}");
        }
    }

    #[test]
    fn the_table_names_each_device_once_and_lower_formats_are_no_slower() {
        let names: Vec<_> = TABLE.iter().flat_map(|card| card.names).collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), different.len());
        for card in TABLE {
            assert!(card.gigabytes_per_second > 0.0 && !card.publication.is_empty());
            let of = |format| {
                card.compute.iter().find(|(known, _)| *known == format).map(|(_, tera)| *tera)
            };
            let fp32 = of("fp32").expect("every card has fp32");
            for faster in ["tf32", "fp16", "bf16", "int8"].into_iter().filter_map(of) {
                assert!(faster >= fp32, "{}", card.names[0]);
            }
        }
    }
}
