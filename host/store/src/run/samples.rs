/*!
Samples as Parquet.

# What it costs, and when

While a worker measures, the host shares the machine with it. So a block of samples is only copied
to memory, eight bytes a query, and encoded when its case has ended and nothing is being timed. Only a case with more
than [`BUFFER_QUERIES`] queries is encoded in between, a buffer at a time. This uses another core for about a second
every four million queries; the worker can then only wait while it sends blocks, which is not timed. Memory is bounded
by the buffer and one row group, for any number of samples.

# Layout

There is one row for each query, in order of arrival. A row group holds queries of one phase only, so that a reader
finds the measured ones by the row group's statistics, without decoding the phase. Times are integer nanoseconds since
the worker's origin. If the case's queries have marks, there are two more columns: the end of each phase of a query,
by its name, and the times at which counted items, such as tokens, were complete.
*/

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder, UInt64Builder};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, ListArray, MapArray, RecordBatch, StringArray,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use host_record::{SampleBlock, SamplePhase};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;

use super::durable::{make_folder, partial, settle};
use super::guarded::{guarded, read_file};
use crate::error::StoreError;

/// Number of queries that are buffered before encoding: 32 MiB.
const BUFFER_QUERIES: usize = 4 << 20;
/// Rows of a row group, which takes a few megabytes while it is encoded.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Rows that are encoded at a time.
const BATCH_ROWS: usize = 1 << 16;

const PHASE: &str = "phase";
const START: &str = "start_ns";
const LATENCY: &str = "latency_ns";
const ITEMS: &str = "items";
const SCHEDULED: &str = "scheduled_ns";
const LANE: &str = "lane";
const PHASE_ENDS: &str = "phase_ends_ns";
const WITHIN: &str = "within_ns";

pub(super) type FileWriter = ArrowWriter<BufWriter<File>>;

/// Returns the properties that all Parquet files of a run folder share.
pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("tare ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
}

/// Opens a file under a temporary name.
pub(super) fn create(
    path: &Path,
    schema: SchemaRef,
    properties: WriterProperties,
) -> Result<FileWriter, StoreError> {
    make_folder(path.parent().unwrap_or(Path::new(".")))?;
    let beside = partial(path);
    let file = File::create(&beside).map_err(StoreError::io("create", &beside))?;
    let writer = BufWriter::with_capacity(1 << 18, file);
    ArrowWriter::try_new(writer, schema, Some(properties)).map_err(StoreError::parquet(path))
}

/// Writes a file from one batch of rows.
pub(super) fn write_rows(path: &Path, rows: &RecordBatch) -> Result<(), StoreError> {
    let mut writer = create(path, rows.schema(), properties().build())?;
    writer.write(rows).and_then(|()| writer.close()).map_err(StoreError::parquet(path))?;
    settle(path)
}

fn schema(marked: bool) -> SchemaRef {
    let phase = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let mut fields = vec![
        Field::new(PHASE, phase, false),
        Field::new(START, DataType::UInt64, false),
        Field::new(LATENCY, DataType::UInt64, false),
        Field::new(ITEMS, DataType::UInt64, false),
        Field::new(SCHEDULED, DataType::UInt64, true),
        Field::new(LANE, DataType::UInt64, false),
    ];
    if marked {
        let columns = MarksBuilder::default().finish();
        for (name, column) in [PHASE_ENDS, WITHIN].into_iter().zip(columns) {
            fields.push(Field::new(name, column.data_type().clone(), false));
        }
    }
    Arc::new(Schema::new(fields))
}

/// Collects the two columns of marks.
#[derive(Debug)]
struct MarksBuilder {
    ends: MapBuilder<StringBuilder, UInt64Builder>,
    within: ListBuilder<UInt64Builder>,
}

impl Default for MarksBuilder {
    fn default() -> Self {
        let names =
            MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
        let number = |name| Field::new(name, DataType::UInt64, false);
        Self {
            ends: MapBuilder::new(Some(names), StringBuilder::new(), UInt64Builder::new())
                .with_values_field(number("value")),
            within: ListBuilder::new(UInt64Builder::new()).with_field(number("element")),
        }
    }
}

impl MarksBuilder {
    /// Adds the marks of a query.
    fn push(&mut self, phases: &[String], ends: &[u64], within: &[u64]) -> Result<(), ArrowError> {
        for (phase, end) in phases.iter().zip(ends) {
            self.ends.keys().append_value(phase);
            self.ends.values().append_value(*end);
        }
        self.ends.append(true)?;
        self.within.values().append_slice(within);
        self.within.append(true);
        Ok(())
    }

    fn finish(&mut self) -> [ArrayRef; 2] {
        [Arc::new(self.ends.finish()), Arc::new(self.within.finish())]
    }
}

/// Collects the samples of one case.
#[derive(Debug)]
pub(super) struct SampleWriter {
    path: PathBuf,
    blocks: Vec<SampleBlock>,
    queries: usize,
    writer: Option<(FileWriter, SamplePhase)>,
    /// Whether queries have marks: either all of a case or none.
    marked: bool,
}

impl SampleWriter {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, blocks: Vec::new(), queries: 0, writer: None, marked: false }
    }

    pub(super) fn push(&mut self, block: &SampleBlock) -> Result<(), StoreError> {
        if block.is_empty() {
            return Ok(());
        }
        if self.writer.is_none() {
            self.marked |= block.marks.is_some();
        }
        self.blocks.push(block.clone());
        // Each block counts extra, so that many tiny ones are bounded too.
        self.queries += block.len() + 8 + block.marks.as_ref().map_or(0, |marks| marks.bytes() / 8);
        if self.queries >= BUFFER_QUERIES { self.encode() } else { Ok(()) }
    }

    /// Encodes the buffer.
    fn encode(&mut self) -> Result<(), StoreError> {
        self.queries = 0;
        let blocks = std::mem::take(&mut self.blocks);
        let mut batch = Batch::default();
        for block in &blocks {
            if batch.phase.is_some_and(|phase| phase != block.phase) {
                self.write(&mut batch)?;
            }
            batch.phase = Some(block.phase);
            let mut marks = block.marks.as_ref().map(|marks| (&marks.phases, marks.queries()));
            for query in block.queries() {
                batch.start.push(query.start_ns);
                batch.latency.push(query.latency_ns);
                batch.items.push(block.items_per_query);
                batch.scheduled.push(query.scheduled_ns);
                batch.lane.push(block.lane.into());
                if self.marked {
                    let none: (&[u64], &[u64]) = (&[], &[]);
                    let (phases, (ends, within)) = match &mut marks {
                        Some((phases, queries)) => {
                            (phases.as_slice(), queries.next().unwrap_or(none))
                        }
                        None => (&[][..], none),
                    };
                    batch
                        .marks
                        .push(phases, ends, within)
                        .map_err(|error| StoreError::parquet(&self.path)(error.into()))?;
                }
                if batch.start.len() == BATCH_ROWS {
                    self.write(&mut batch)?;
                    batch.phase = Some(block.phase);
                }
            }
        }
        self.write(&mut batch)
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let Some(phase) = batch.phase.take().filter(|_| !batch.start.is_empty()) else {
            return Ok(());
        };
        let (writer, last) = match &mut self.writer {
            Some(writer) => writer,
            none => {
                // A dictionary would look up every number.
                let numbers = [START, LATENCY, ITEMS, SCHEDULED, LANE];
                let properties = numbers.into_iter().map(ColumnPath::from).fold(
                    properties(),
                    |properties, column| {
                        properties
                            .set_column_dictionary_enabled(column.clone(), false)
                            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
                    },
                );
                let properties = properties.build();
                none.insert((create(&self.path, schema(self.marked), properties)?, phase))
            }
        };
        let failed = || StoreError::parquet(&self.path);
        if *last != phase {
            writer.flush().map_err(failed())?;
            *last = phase;
        }
        let names: ArrayRef = Arc::new(StringArray::from(vec![phase.name()]));
        let keys = Int8Array::from(vec![0; batch.start.len()]);
        let phases = DictionaryArray::<Int8Type>::try_new(keys, names);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(phases.map_err(|error| failed()(error.into()))?),
            Arc::new(UInt64Array::from(std::mem::take(&mut batch.start))),
            Arc::new(UInt64Array::from(std::mem::take(&mut batch.latency))),
            Arc::new(UInt64Array::from(std::mem::take(&mut batch.items))),
            Arc::new(UInt64Array::from(std::mem::take(&mut batch.scheduled))),
            Arc::new(UInt64Array::from(std::mem::take(&mut batch.lane))),
        ];
        if self.marked {
            columns.extend(batch.marks.finish());
        }
        RecordBatch::try_new(schema(self.marked), columns)
            .map_err(parquet::errors::ParquetError::from)
            .and_then(|rows| writer.write(&rows))
            .map_err(failed())
    }

    /// Encodes the rest and completes the file; a case without samples has no file.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        self.encode()?;
        let Some((writer, _)) = self.writer.take() else { return Ok(()) };
        writer.close().map_err(StoreError::parquet(&self.path))?;
        settle(&self.path)
    }
}

#[derive(Default)]
struct Batch {
    phase: Option<SamplePhase>,
    start: Vec<u64>,
    latency: Vec<u64>,
    items: Vec<u64>,
    scheduled: Vec<Option<u64>>,
    lane: Vec<u64>,
    /// Empty if queries have no marks.
    marks: MarksBuilder,
}

/// Marks of the measured queries of a case, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredMarks {
    /// Names of phases.
    pub(crate) phases: Vec<String>,
    /// For each phase, its duration in each query, in nanoseconds.
    pub(crate) durations_ns: Vec<Vec<u64>>,
    /// Number of counted moments within each query.
    pub(crate) counts: Vec<u64>,
    /// These moments, in nanoseconds since their query began.
    pub(crate) within_ns: Vec<u64>,
}

impl MeasuredMarks {
    /// Adds the marks of another process, which has the same phases.
    pub(crate) fn extend(&mut self, other: Self) {
        if self.phases.is_empty() {
            self.phases = other.phases;
            self.durations_ns = other.durations_ns;
        } else {
            for (all, more) in self.durations_ns.iter_mut().zip(other.durations_ns) {
                all.extend(more);
            }
        }
        self.counts.extend(other.counts);
        self.within_ns.extend(other.within_ns);
    }

    fn add(&mut self, rows: &RecordBatch) -> Option<()> {
        let column = |name: &str| Some(rows.column_by_name(name)?.as_any());
        let starts = column(START)?.downcast_ref::<UInt64Array>()?.values();
        let ends = column(PHASE_ENDS)?.downcast_ref::<MapArray>()?;
        let names = ends.keys().as_any().downcast_ref::<StringArray>()?;
        let end_times = ends.values().as_any().downcast_ref::<UInt64Array>()?.values();
        let within = column(WITHIN)?.downcast_ref::<ListArray>()?;
        let times = within.values().as_any().downcast_ref::<UInt64Array>()?.values();
        for (row, start) in starts.iter().enumerate() {
            let of = |offsets: &[i32]| offsets[row] as usize..offsets[row + 1] as usize;
            let entries = of(ends.value_offsets());
            if self.phases.is_empty() && self.counts.is_empty() {
                self.phases = entries.clone().map(|at| names.value(at).to_owned()).collect();
                self.durations_ns = vec![Vec::new(); self.phases.len()];
            }
            if !entries.clone().map(|at| names.value(at)).eq(self.phases.iter().map(String::as_str))
            {
                return None;
            }
            let mut begin = *start;
            for (at, durations) in entries.zip(&mut self.durations_ns) {
                durations.push(end_times[at].saturating_sub(begin));
                begin = end_times[at];
            }
            let times = &times[of(within.value_offsets())];
            self.counts.push(times.len() as u64);
            self.within_ns.extend(times.iter().map(|time| time.saturating_sub(*start)));
        }
        Some(())
    }
}

/// A column of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleColumn {
    Start,
    Latency,
    Items,
    /// The scheduled time; in open loops only.
    Scheduled,
    /// The lane; absent in older files.
    Lane,
}

impl SampleColumn {
    fn name(self) -> &'static str {
        match self {
            Self::Start => START,
            Self::Latency => LATENCY,
            Self::Items => ITEMS,
            Self::Scheduled => SCHEDULED,
            Self::Lane => LANE,
        }
    }
}

/// A file of samples, open for reading.
pub(crate) struct SampleReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    measured: Vec<usize>,
    warm_up: Vec<usize>,
    rows: usize,
}

impl SampleReader {
    /// Opens the file and finds the measured row groups; `None` if there is no file.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = match host_files::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::unread(path)(error)),
        };
        Self::of(path, file).map(Some)
    }

    /// As [`SampleReader::open`], for an open file.
    pub(super) fn of(path: &Path, file: File) -> Result<Self, StoreError> {
        let bytes = file.metadata().map_err(StoreError::io("read", path))?.len();
        let file = read_file(path, file, SerializedFileReader::new)?;
        let damaged =
            |detail| StoreError::parquet(path)(parquet::errors::ParquetError::General(detail));
        let all = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows);
        let all = u64::try_from(all.fold(0, i64::saturating_add)).unwrap_or(u64::MAX);
        if all > MOST_ROWS_ANYWAY.max(bytes.saturating_mul(MOST_ROWS_A_BYTE)) {
            let detail =
                format!("it claims {all} queries in {bytes} bytes, which no measurement has");
            return Err(damaged(detail));
        }
        for group in file.metadata().row_groups() {
            if let Some((column, value)) = beyond_limits(group) {
                let detail =
                    format!("column `{column}` has the value {value}, which is impossible");
                return Err(damaged(detail));
            }
        }
        let (mut measured, mut warm_up, mut rows) = (Vec::new(), Vec::new(), 0);
        for (index, group) in file.metadata().row_groups().iter().enumerate() {
            let phase = group_phase(group).ok_or_else(|| {
                damaged(format!("row group {index} does not say which phase it holds"))
            })?;
            match phase {
                SamplePhase::Measured => {
                    measured.push(index);
                    rows += usize::try_from(group.num_rows()).unwrap_or(0);
                }
                SamplePhase::WarmUp => warm_up.push(index),
                SamplePhase::Search => {}
            }
        }
        Ok(Self { path: path.to_owned(), file, measured, warm_up, rows })
    }

    /// Returns the number of measured queries.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns a column of the measured queries, in order.
    pub(crate) fn read(&self, column: SampleColumn) -> Result<Vec<u64>, StoreError> {
        guarded(|| self.read_groups(column, &self.measured))
            .map_err(StoreError::parquet(&self.path))
    }

    /// Returns whether every measured query has this column.
    pub(crate) fn has(&self, column: SampleColumn) -> bool {
        self.measured.iter().all(|group| {
            let columns = self.file.metadata().row_group(*group).columns();
            let found = columns.iter().find(|found| found.column_path().string() == column.name());
            found.and_then(|found| found.statistics()?.null_count_opt()) == Some(0)
        })
    }

    /// Returns the marks of the measured queries; `None` if they have none.
    pub(crate) fn read_marks(&self) -> Result<Option<MeasuredMarks>, StoreError> {
        let schema = self.file.metadata().file_metadata().schema_descr_ptr();
        if !schema.root_schema().get_fields().iter().any(|field| field.name() == WITHIN) {
            return Ok(None);
        }
        let file = host_files::open(&self.path).map_err(StoreError::unread(&self.path))?;
        let read = |file| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
            let columns = [START, PHASE_ENDS, WITHIN];
            let only = ProjectionMask::columns(builder.parquet_schema(), columns);
            let reader =
                builder.with_projection(only).with_row_groups(self.measured.clone()).build()?;
            let mut marks = MeasuredMarks::default();
            for rows in reader {
                marks.add(&rows?).ok_or_else(|| {
                    let detail = "the columns are not those of marked queries".into();
                    parquet::errors::ParquetError::General(detail)
                })?;
            }
            Ok(marks)
        };
        read_file(&self.path, file, read).map(Some)
    }

    /// Returns a column of the warm-up's queries, in order.
    pub(crate) fn read_warm_up(&self, column: SampleColumn) -> Result<Vec<u64>, StoreError> {
        guarded(|| self.read_groups(column, &self.warm_up)).map_err(StoreError::parquet(&self.path))
    }

    fn read_groups(
        &self,
        column: SampleColumn,
        groups: &[usize],
    ) -> parquet::errors::Result<Vec<u64>> {
        let unexpected = || {
            let detail = format!("there is no column `{}` of whole numbers", column.name());
            parquet::errors::ParquetError::General(detail)
        };
        let schema = self.file.metadata().file_metadata().schema_descr_ptr();
        let index = schema.columns().iter().position(|leaf| leaf.name() == column.name());
        let index = index.ok_or_else(unexpected)?;
        let nullable = schema.column(index).max_def_level() > 0;
        let mut levels = Vec::new();
        let rows = groups.iter().map(|group| self.file.metadata().row_group(*group).num_rows());
        let rows = rows.fold(0_i64, i64::saturating_add);
        let mut values: Vec<i64> =
            Vec::with_capacity(usize::try_from(rows).unwrap_or(0).min(MOST_RESERVED));
        for group in groups {
            let group = self.file.get_row_group(*group)?;
            let ColumnReader::Int64ColumnReader(mut reader) = group.get_column_reader(index)?
            else {
                return Err(unexpected());
            };
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let end = values.len() + rows;
            while values.len() < end {
                // A nullable column has levels, which are not needed if all values are present.
                levels.clear();
                let levels = nullable.then_some(&mut levels);
                let (read, ..) =
                    reader.read_records(end - values.len(), levels, None, &mut values)?;
                if read == 0 {
                    let detail = format!("a row group ends before its {rows} rows");
                    return Err(parquet::errors::ParquetError::EOF(detail));
                }
            }
        }
        // Parquet keeps unsigned numbers as signed ones with the same bits. The memory is reused.
        Ok(values.into_iter().map(i64::cast_unsigned).collect())
    }
}

/// Most values for which memory is reserved before they are read: the number of rows is the file's word.
const MOST_RESERVED: usize = 1 << 24;

/// Most rows for a byte of a file. Times of queries differ from row to row, so that a real file has less than one row
/// for a byte; a file of equal rows can be a thousand times as long when it is decoded.
const MOST_ROWS_A_BYTE: u64 = 16;
/// Rows that any file may have.
const MOST_ROWS_ANYWAY: u64 = 1 << 20;

/// Returns a column of times or counts, and a value in it that is greater than whole numbers of the database, by the
/// statistics of a row group.
fn beyond_limits(group: &RowGroupMetaData) -> Option<(String, u64)> {
    group.columns().iter().find_map(|column| {
        let Statistics::Int64(statistics) = column.statistics()? else { return None };
        let values = [statistics.min_opt(), statistics.max_opt()].into_iter().flatten();
        // Unsigned numbers are kept as signed ones with the same bits.
        let beyond = values.copied().find(|value| *value < 0)?;
        Some((column.column_path().string(), beyond.cast_unsigned()))
    })
}

/// Returns the one phase of a row group.
fn group_phase(group: &RowGroupMetaData) -> Option<SamplePhase> {
    let phase = group.columns().iter().find(|column| column.column_path().string() == PHASE)?;
    let Statistics::ByteArray(statistics) = phase.statistics()? else { return None };
    let low = statistics.min_opt()?;
    if low != statistics.max_opt()? {
        return None;
    }
    std::str::from_utf8(low.data()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file of samples with equal rows, and opens it.
    fn opened(rows: usize, latency: u64) -> Result<SampleReader, StoreError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("samples.parquet");
        let phase = vec![SamplePhase::Measured.name(); rows];
        let phase: DictionaryArray<Int8Type> = phase.into_iter().collect();
        let equal = |value| Arc::new(UInt64Array::from_value(value, rows)) as ArrayRef;
        let columns = vec![
            Arc::new(phase) as ArrayRef,
            equal(1),
            equal(latency),
            equal(1),
            equal(1),
            equal(0),
        ];
        let batch = RecordBatch::try_new(schema(false), columns).expect("rows");
        let properties = properties().build();
        let file = File::create(&path).expect("a file");
        let mut writer =
            ArrowWriter::try_new(file, schema(false), Some(properties)).expect("a writer");
        writer.write(&batch).and_then(|()| writer.close()).expect("a file");
        SampleReader::open(&path).map(|reader| reader.expect("the file is there"))
    }

    #[test]
    fn more_rows_than_a_file_of_its_size_can_have_are_refused() {
        let error = opened(4 << 20, 5).err().expect("too many rows").to_string();
        assert!(error.contains("it claims 4194304 queries in "), "{error}");
        assert_eq!(opened(1 << 20, 5).expect("a short file").len(), 1 << 20);
    }

    #[test]
    fn a_value_that_no_clock_has_is_refused() {
        let error = opened(10, u64::MAX).err().expect("an impossible latency").to_string();
        let end = "column `latency_ns` has the value 18446744073709551615, which is impossible";
        assert!(error.ends_with(end), "{error}");
    }
}
