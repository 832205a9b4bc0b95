//! On which processors a case is measured.

use serde::{Deserialize, Serialize};

/// Processors for the worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// Wherever the scheduler puts it.
    #[default]
    None,
    /// On as many cores of one memory node as the backend has threads.
    Auto,
    /// These processors, by the kernel's numbers; sorted, each once, never empty.
    Processors(Vec<u32>),
}

impl Pin {
    /// Returns whether the scheduler decides.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Numbers in the way that the kernel lists processors: `0-3,8`.
#[must_use]
pub fn list_of_processors(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let part = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Returns the numbers of a list such as `0-3,8`; `None` if it is not such a list, or absurdly
/// long.
#[must_use]
pub fn processors_of_list(list: &str) -> Option<Vec<u32>> {
    /// No kernel has more processors.
    const LARGEST: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last > LARGEST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for (list, numbers) in
            [("0", vec![0]), ("0-3,8", vec![0, 1, 2, 3, 8]), ("1,3,5-6", vec![1, 3, 5, 6])]
        {
            assert_eq!(processors_of_list(list).as_deref(), Some(&*numbers));
            assert_eq!(list_of_processors(&numbers), list);
        }
        assert_eq!(list_of_processors(&[]), "");
        for list in ["", "a", "0-", "1,,2", "0-4000000000"] {
            assert_eq!(processors_of_list(list), None, "{list}");
        }
    }
}
