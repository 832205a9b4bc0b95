//! Values that an engine may do anything with: an index beyond its table is an error for one, an answer of zeros for
//! another. So such an input is refused before any engine sees it, and the outcome is the same for all.

use host_record::LegalValues;
use plugin_api::client::DataType;

/// Checks the elements of an input.
///
/// # Errors
///
/// The first element that is not legal, in one sentence.
pub(crate) fn check(legal: &LegalValues, dtype: DataType, bytes: &[u8]) -> Result<(), String> {
    let (entries, operator) = match legal {
        LegalValues::Index { entries, operator } => (*entries, operator.as_str()),
        LegalValues::Positions { entries: Some(entries) } => (*entries, "Gather"),
        LegalValues::Positions { entries: None }
        | LegalValues::Below { .. }
        | LegalValues::Computed { .. }
        | LegalValues::Ones
        | LegalValues::Steers => return Ok(()),
    };
    let entries = i128::from(entries);
    // A negative index counts from the end.
    let is_outside = |value: &i128| *value >= entries || *value < -entries;
    match whole_numbers(dtype, bytes).into_iter().flatten().find(is_outside) {
        Some(value) => Err(format!(
            "the value {value} is beyond the table of {entries} entries that {operator} looks it up in"
        )),
        None => Ok(()),
    }
}

/// Returns the elements of a type of whole numbers.
fn whole_numbers(dtype: DataType, bytes: &[u8]) -> Option<Vec<i128>> {
    macro_rules! decode {
        ($type:ty) => {
            bytes.as_chunks().0.iter().map(|one| <$type>::from_le_bytes(*one).into()).collect()
        };
    }
    Some(match dtype {
        DataType::I64 => decode!(i64),
        DataType::I32 => decode!(i32),
        DataType::I16 => decode!(i16),
        DataType::I8 => decode!(i8),
        DataType::U64 => decode!(u64),
        DataType::U32 => decode!(u32),
        DataType::U16 => decode!(u16),
        DataType::U8 => decode!(u8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_beyond_their_table_are_refused() {
        let legal = LegalValues::Index { entries: 100, operator: "Gather".into() };
        let judged = |values: &[i64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            check(&legal, DataType::I64, &bytes)
        };
        assert_eq!(judged(&[0, 99, -100]), Ok(()));
        let beyond = "the value 100 is beyond the table of 100 entries that Gather looks it up in";
        assert_eq!(judged(&[0, 100]), Err(beyond.into()));
        assert!(judged(&[-101]).is_err());
        assert_eq!(check(&legal, DataType::U8, &[99]), Ok(()));
        assert!(check(&legal, DataType::U8, &[100]).is_err());
        assert_eq!(check(&LegalValues::Ones, DataType::U8, &[100]), Ok(()));
        let below = LegalValues::Below { entries: 50, operator: "Mod".into() };
        assert_eq!(check(&below, DataType::U8, &[100]), Ok(()), "it wraps around");
    }
}
