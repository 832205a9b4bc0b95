/*!
The worker process: loads one backend plugin, measures one case, streams its samples.

A worker lives for one request, beside an [overseer] in a process of its own. It reads the request from standard input, answers in frames (see
[`host_record::protocol`]) and ends. It owns what must happen in the plugin's own process, and
nothing else: opening the library, making the inputs, timing, reading outputs back. It has three kinds of
threads of its own: one for each client or server if there are several, one that samples the device's
state if the case asks for it, and one that waits for the host's request to cancel, if the backend can
cancel.

The plugin is trusted with this process and with nothing beyond: if it destroys the process, the host
only sees frames that stop coming. So the worker does not try to survive. It makes sure that a frame is
either whole or absent, and that the phase is known in which it died.
*/

mod backend;
mod cancel;
mod card;
mod clock;
mod connection;
mod contract;
mod data;
mod device_state;
mod device_time;
mod disturbance;
mod early;
mod energy;
mod examples;
mod exceptions;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod inspect;
mod lanes;
mod legal;
mod library;
mod load;
mod looking;
mod marks;
mod measurement;
mod model;
mod model_use;
mod npy;
mod outputs;
mod overseer;
mod oversubscription;
mod parity;
mod percentile;
mod pinning;
mod platform;
mod profile;
mod reference;
mod shape;
mod stages;
mod stalls;
mod surroundings;
mod synthetic;
mod thinned;
mod trivial;
mod varying;
mod warnings;

use std::io::{self, BufRead, Read};

use host_measure::Anchor;
use host_record::protocol::{Message, PROTOCOL_VERSION, Request};
use host_record::{Failure, NotMeasured, Phase};

use connection::Connection;
use failure::Stop;

pub use backend::BackendTarget;
pub use energy::step as counter_step;
pub use library::open;
pub use surroundings::DEVICE_STEP_NS;

/// Limit of a request; a longer one is not from our host.
const REQUEST_LIMIT: u64 = 16 << 20;

/// Serves one request and ends the process.
///
/// Ends without running destructors and exit handlers of the plugin's libraries: the case is over, and a
/// crash or hang in them would only cost time.
pub fn serve() -> ! {
    fn work() {
        serve_request()
    }
    exceptions::end_search_above(work);
    platform::end(0)
}

fn serve_request() -> ! {
    // As early as can be, since the processor's counter is scaled by the time that passes from here.
    let anchor = Anchor::take();
    // Before there is another thread, and before anything of a plugin.
    let protocol = platform::take_protocol(overseer::split().ok());
    host_machine::process::end_with_parent();
    host_machine::process::be_first_to_go();
    let code = match protocol.map(Connection::new) {
        Err(_) => 1,
        Ok(mut connection) => match answer(&mut connection, anchor) {
            Ok(()) => 0,
            // The host is gone, so the error cannot be reported.
            Err(Stop::HostIsGone(_)) => 1,
            Err(Stop::Failed(failure)) => {
                let _ = connection.send(&Message::Failed(*failure));
                1
            }
        },
    };
    platform::end(code)
}

fn answer(connection: &mut Connection, anchor: Option<Anchor>) -> Result<(), Stop> {
    let process = Some(std::process::id());
    connection.send(&Message::Hello { protocol_version: PROTOCOL_VERSION, process })?;
    let mut line = Vec::new();
    io::stdin().lock().take(REQUEST_LIMIT).read_until(b'\n', &mut line)?;
    let request = parse(&line)?;
    let message = match request {
        Request::Describe { library, sha256, .. } => {
            let described = backend::describe(connection, &library, sha256.as_deref())?;
            Message::Described(Box::new(described))
        }
        Request::Inspect { model, .. } => Message::Inspected(Box::new(inspect::structure(&model)?)),
        Request::CheckInputs { case, files, .. } => {
            data::check_inputs(&case, &files)?;
            Message::Fits
        }
        Request::Calibrate { case, .. } => {
            let machine = host_machine::Machine::this();
            pinning::pin(&case, &machine)?;
            let calibration = host_peaks::calibrate(&machine);
            let calibration = calibration.map_err(|error| Failure::Gap {
                gap: Box::new(NotMeasured::CalibrationFailed { reason: error.reason }.into()),
            })?;
            Message::Calibrated(Box::new(calibration))
        }
        Request::Noise { duration_ns, .. } => {
            let probe = host_peaks::probe(
                &host_machine::Machine::this(),
                std::time::Duration::from_nanos(duration_ns),
            );
            let probe = probe.map_err(|error| Failure::Gap {
                gap: Box::new(NotMeasured::CalibrationFailed { reason: error.reason }.into()),
            })?;
            Message::Noise(Box::new(probe))
        }
        Request::Measure { case, files, reference, calibration, .. } => {
            let (reference, calibration) = (reference.as_deref(), calibration.as_ref());
            let clock = clock::choose(anchor, &host_machine::Machine::this());
            let report =
                measurement::measure(connection, &clock, &case, &files, reference, calibration)?;
            Message::Finished(Box::new(report))
        }
        Request::Reference { case, files, file, .. } => {
            reference::make(connection, &case, &files, &file)?;
            Message::Kept
        }
    };
    Ok(connection.send(&message)?)
}

fn parse(line: &[u8]) -> Result<Request, Failure> {
    /// Returns the version, which every version of a request has.
    fn version(line: &[u8]) -> Option<u64> {
        let value: serde_json::Value = serde_json::from_slice(line).ok()?;
        value.get("protocol_version").or_else(|| value.get("protocol-version"))?.as_u64()
    }
    match version(line) {
        Some(version) if version != u64::from(PROTOCOL_VERSION) => Err(Failure::RefusedVersion {
            detail: format!(
                "the host speaks protocol {version}, this worker speaks {PROTOCOL_VERSION}; they \
                 are installed together, so reinstall both"
            ),
        }),
        _ => serde_json::from_slice(line).map_err(|error| Failure::Protocol {
            phase: Phase::Start,
            detail: format!("expected a request: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use host_record::{
        AxesChoice, CaseKey, CaseSpec, DeviceInfo, FileId, InputSource, MeasureSettings, Mode,
        PlacementRule, PluginIdentity, Precision, WarmUp,
    };

    use super::*;

    /// Returns a case to change.
    pub(crate) fn case() -> CaseSpec {
        CaseSpec {
            id: "0".into(),
            index: 0,
            key: CaseKey::new("digits", "cpu", "cpu:0"),
            model: FileId { name: "model.onnx".into(), sha256: String::new(), ..FileId::default() },
            machine: String::new(),
            plugin: PluginIdentity {
                id: "cpu".into(),
                version: "0.1.0".into(),
                sha256: String::new(),
            },
            device: DeviceInfo {
                id: "cpu:0".into(),
                kind: "cpu".into(),
                name: String::new(),
                memory_bytes: None,
                modes: vec![Mode::Inference],
                precisions: vec![Precision::Fp32],
                attributes: BTreeMap::new(),
            },
            threads: Some(2),
            options: BTreeMap::new(),
            placement: PlacementRule::Any,
            environment: Vec::new(),
            check: None,
            inputs: InputSource::Synthetic(BTreeMap::new()),
            axes: AxesChoice::default(),
            values: BTreeMap::new(),
            measure: MeasureSettings {
                warm_up: WarmUp::Iterations(1),
                minimum_duration_ns: 0,
                maximum_duration_ns: 1,
                minimum_queries: 1,
                timeout_ns: 1,
                ..MeasureSettings::default()
            },
            seed: 0,
            process: 0,
            asked: None,
        }
    }

    #[test]
    fn requests_of_another_version_are_refused_by_name() {
        let request = Request::Describe {
            protocol_version: PROTOCOL_VERSION,
            library: "lib.so".into(),
            sha256: None,
        };
        let line = serde_json::to_vec(&request).expect("a request is JSON");
        assert_eq!(parse(&line), Ok(request.clone()));

        let mut newer = serde_json::to_value(&request).expect("a request is JSON");
        let version = newer
            .as_object_mut()
            .and_then(|fields| fields.iter_mut().find(|(name, _)| name.starts_with("protocol")));
        *version.expect("a version").1 = (PROTOCOL_VERSION + 1).into();
        let failure = parse(newer.to_string().as_bytes()).expect_err("a newer version");
        assert_eq!(
            failure.to_string(),
            "incompatible version: the host speaks protocol 9, this worker speaks 8; they are \
             installed together, so reinstall both"
        );
        assert!(matches!(parse(b"hello"), Err(Failure::Protocol { phase: Phase::Start, .. })));
    }
}
