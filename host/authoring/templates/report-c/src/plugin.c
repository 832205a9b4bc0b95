/*
 * The cases of a run with their median latency, as a table in Markdown: {{name}}.md.
 *
 * What a function returns is freed by the bindings, so each text in it is a copy. The memory of a call is given back when
 * it ends, so what is read need not be freed.
 */
#include "report_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef tare_plugin_views_table_t view_t;
typedef tare_plugin_types_cell_t cell_t;

/* ---- Text that grows ----------------------------------------------------------------------- */

typedef struct {
    char *data;
    size_t length, capacity;
} text_t;

static void append(text_t *text, const void *bytes, size_t length) {
    if (text->length + length > text->capacity) {
        text->capacity = 2 * (text->length + length);
        text->data = realloc(text->data, text->capacity);
        if (text->data == NULL) abort();
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
}

static void append_text(text_t *text, const char *words) { append(text, words, strlen(words)); }

/* A number that is not negative, rounded to a whole one. */
static void append_number(text_t *text, double number) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = (uint64_t)(number + 0.5);
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    append(text, digits + at, sizeof digits - at);
}

/* ---- Views --------------------------------------------------------------------------------- */

static int is(report_plugin_string_t text, const char *other) {
    return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

/* Reads a view; the error says which views there are. */
static bool read_view(const char *name, view_t *view, report_plugin_string_t *error) {
    report_plugin_string_t text = {(uint8_t *)name, strlen(name)};
    return tare_plugin_views_read(&text, view, error);
}

/* A cell by the name of its column. Of a column that is not there, it is an empty one. */
static cell_t cell(const view_t *view, size_t row, const char *column) {
    for (size_t at = 0; at < view->columns.len; at++)
        if (is(view->columns.ptr[at], column)) return view->rows.ptr[row].ptr[at];
    return (cell_t){.tag = TARE_PLUGIN_TYPES_CELL_NULL};
}

static void append_cell(text_t *text, cell_t cell) {
    switch (cell.tag) {
    case TARE_PLUGIN_TYPES_CELL_TEXT: append(text, cell.val.text.ptr, cell.val.text.len); break;
    case TARE_PLUGIN_TYPES_CELL_INTEGER: append_number(text, (double)cell.val.integer); break;
    case TARE_PLUGIN_TYPES_CELL_REAL: append_number(text, cell.val.real); break;
    case TARE_PLUGIN_TYPES_CELL_BOOLEAN: append_text(text, cell.val.boolean ? "yes" : "no"); break;
    /* A value that is missing is a gap, never a zero. */
    default: append_text(text, "gap");
    }
}

/* ---- The report ---------------------------------------------------------------------------- */

void exports_tare_plugin_report_describe(exports_tare_plugin_report_description_t *description) {
    report_plugin_string_dup(&description->id, "{{name}}");
    report_plugin_string_dup(&description->version, "0.1.0");
    report_plugin_string_dup(&description->summary,
                             "Lists the cases with their median latency as Markdown.");
    report_plugin_string_dup(&description->license, "MIT OR Apache-2.0");
    description->options.ptr = NULL; /* It takes none, and the host refuses them. */
    description->options.len = 0;
}

/* The row of a case's median latency, or the number of rows. */
static size_t median_of(const view_t *results, cell_t id) {
    for (size_t row = 0; row < results->rows.len; row++) {
        cell_t one = cell(results, row, "case_id"), metric = cell(results, row, "metric");
        if (one.tag == TARE_PLUGIN_TYPES_CELL_TEXT && metric.tag == TARE_PLUGIN_TYPES_CELL_TEXT &&
            one.val.text.len == id.val.text.len &&
            memcmp(one.val.text.ptr, id.val.text.ptr, id.val.text.len) == 0 &&
            is(metric.val.text, "latency.p50"))
            return row;
    }
    return results->rows.len;
}

bool exports_tare_plugin_report_render(report_plugin_string_t *options,
                                       report_plugin_list_string_t *files,
                                       report_plugin_string_t *error) {
    (void)options;
    view_t cases, results;
    if (!read_view("cases", &cases, error) || !read_view("results", &results, error)) return false;
    text_t text = {0};
    append_text(&text, "# Median latency\n\n| case | model | batch | median |\n|---|---|---|---|\n");
    for (size_t row = 0; row < cases.rows.len; row++) {
        cell_t id = cell(&cases, row, "case_id");
        size_t median = median_of(&results, id);
        append_text(&text, "| ");
        append_cell(&text, id);
        append_text(&text, " | ");
        append_cell(&text, cell(&cases, row, "model"));
        append_text(&text, " | ");
        append_cell(&text, cell(&cases, row, "batch"));
        append_text(&text, " | ");
        cell_t value = {.tag = TARE_PLUGIN_TYPES_CELL_NULL};
        if (median < results.rows.len) value = cell(&results, median, "value");
        append_cell(&text, value);
        if (value.tag != TARE_PLUGIN_TYPES_CELL_NULL) {
            append_text(&text, " ");
            append_cell(&text, cell(&results, median, "unit"));
        }
        append_text(&text, " |\n");
    }
    report_plugin_string_t name;
    report_plugin_string_dup(&name, "{{name}}.md");
    report_plugin_list_u8_t contents = {(uint8_t *)text.data, text.length};
    if (!tare_plugin_output_write(&name, &contents, error)) return false;
    files->ptr = malloc(sizeof *files->ptr);
    files->len = 1;
    files->ptr[0] = name;
    return true;
}
