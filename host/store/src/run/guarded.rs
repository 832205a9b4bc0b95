/*!
Reading Parquet files that may be damaged or hostile.

The library panics on some of them, and on others it allocates or loops without bounds. So its metadata is checked
first, and a panic is an error.
*/

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use super::thrift::{Walk, damaged};
use crate::error::StoreError;

/// Bytes at a file's end: the length of the metadata, and the format's mark.
const TAIL: u64 = 8;
/// Greatest length of the metadata, enough for 10¹⁰ queries.
const GREATEST_METADATA: u64 = 16 << 20;
/// Number of the field of a page's header that has the length of the page.
const COMPRESSED_PAGE_SIZE: i64 = 3;

thread_local! {
    /// Whether a panic on this thread is an error of the file that is being read.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Reads a file after a check of its metadata.
pub(super) fn read_file<T>(
    path: &Path,
    file: File,
    read: impl FnOnce(File) -> Result<T>,
) -> std::result::Result<T, StoreError> {
    let read = || {
        check(&file)?;
        read(file)
    };
    guarded(read).map_err(StoreError::parquet(path))
}

/// Checks what the library takes for granted: lengths of lists, numbers of rows, and the places of pages.
fn check(file: &File) -> Result<()> {
    let bytes = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let tail = bytes.checked_sub(TAIL).ok_or_else(|| damaged("it is too short"))?;
    file.seek(SeekFrom::Start(tail))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    let start = tail.checked_sub(length).filter(|_| length <= GREATEST_METADATA);
    let start = start.ok_or_else(|| damaged("its metadata has an impossible length"))?;
    file.seek(SeekFrom::Start(start))?;
    let mut metadata = Vec::new();
    file.by_ref().take(length).read_to_end(&mut metadata)?;
    Walk::new(&metadata[..], length).integer_of_struct(0)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&metadata)?;
    check_places(&metadata, bytes)?;
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (start, length) = place(column).ok_or_else(|| damaged("a column has no place"))?;
        file.seek(SeekFrom::Start(start))?;
        let mut pages = Walk::new(&mut file, length);
        while pages.left() > 0 {
            let page = pages.integer_of_struct(COMPRESSED_PAGE_SIZE)?;
            let page = page.and_then(|bytes| u64::try_from(bytes).ok());
            pages.pass_over(page.ok_or_else(|| damaged("a page has no length"))?)?;
        }
    }
    Ok(())
}

/// Checks that row counts are possible, and that the columns lie within the file and do not share its bytes.
fn check_places(metadata: &ParquetMetaData, bytes: u64) -> Result<()> {
    let wrong =
        |group: usize, what: &str| ParquetError::General(format!("row group {group} {what}"));
    let (mut rows, mut used) = (0_i64, 0_u64);
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let sum = Some(group.num_rows()).filter(|rows| *rows >= 0);
        let sum = sum.and_then(|more| rows.checked_add(more));
        rows = sum.ok_or_else(|| wrong(index, "has an impossible number of rows"))?;
        for column in group.columns() {
            let end = place(column).and_then(|(start, length)| start.checked_add(length));
            if end.is_none_or(|end| end > bytes) {
                return Err(wrong(index, "lies outside the file"));
            }
            used = used.saturating_add(column.compressed_size().unsigned_abs());
        }
        if used > bytes {
            return Err(wrong(index, "shares bytes with another"));
        }
    }
    Ok(())
}

/// Returns the first byte of a column and its length.
fn place(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    Some((u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?))
}

/// Reads, and returns an error if the library panics. The panic is not printed.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                report(panic);
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    // Everything read so far is dropped.
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(was_guarded);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(ParquetError::General(format!("the file is damaged: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error() {
        let error = guarded::<()>(|| panic!("no dictionary")).expect_err("it panics");
        assert_eq!(error.to_string(), "Parquet error: the file is damaged: no dictionary");
        assert_eq!(guarded(|| Ok(1)).ok(), Some(1));
        assert!(!IS_GUARDED.get());
    }
}
