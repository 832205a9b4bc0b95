/*
 * The case with the lowest median latency.
 *
 * What a function returns is freed by the bindings, so each text in it is a copy. The memory of a call is given back when
 * it ends, so what is read need not be freed.
 */
#include "recommender_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef recommender_plugin_string_t string_t;
typedef tare_plugin_views_table_t view_t;
typedef tare_plugin_types_cell_t cell_t;
typedef exports_tare_plugin_recommender_recommendation_t advice_t;

static int is(string_t text, const char *other) {
    return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

/* A cell by the name of its column. Of a column that is not there, it is an empty one. */
static cell_t cell(const view_t *view, size_t row, const char *column) {
    for (size_t at = 0; at < view->columns.len; at++)
        if (is(view->columns.ptr[at], column)) return view->rows.ptr[row].ptr[at];
    return (cell_t){.tag = TARE_PLUGIN_TYPES_CELL_NULL};
}

void exports_tare_plugin_recommender_describe(
    exports_tare_plugin_recommender_description_t *description) {
    recommender_plugin_string_dup(&description->id, "{{name}}");
    recommender_plugin_string_dup(&description->version, "0.1.0");
    recommender_plugin_string_dup(&description->summary,
                                  "Names the case with the lowest median latency.");
    recommender_plugin_string_dup(&description->license, "MIT OR Apache-2.0");
    description->options.ptr = NULL; /* It takes none, and the host refuses them. */
    description->options.len = 0;
}

/* A copy of `before`, a text and `after`. */
static string_t joined(const char *before, string_t text, const char *after) {
    size_t first = strlen(before), last = strlen(after);
    string_t all = {malloc(first + text.len + last), first + text.len + last};
    if (all.ptr == NULL) abort();
    memcpy(all.ptr, before, first);
    memcpy(all.ptr + first, text.ptr, text.len);
    memcpy(all.ptr + first + text.len, after, last);
    return all;
}

bool exports_tare_plugin_recommender_recommend(
    string_t *options, exports_tare_plugin_recommender_list_recommendation_t *advice,
    string_t *error) {
    (void)options;
    string_t name = {(uint8_t *)"results", 7};
    view_t results;
    if (!tare_plugin_views_read(&name, &results, error)) return false;
    const string_t *best = NULL;
    double least = 0.0;
    for (size_t row = 0; row < results.rows.len; row++) {
        cell_t metric = cell(&results, row, "metric"), value = cell(&results, row, "value");
        /* A case without a value takes no part. */
        if (metric.tag != TARE_PLUGIN_TYPES_CELL_TEXT || !is(metric.val.text, "latency.p50") ||
            value.tag != TARE_PLUGIN_TYPES_CELL_REAL)
            continue;
        if (best == NULL || value.val.real < least) {
            least = value.val.real;
            for (size_t at = 0; at < results.columns.len; at++)
                if (is(results.columns.ptr[at], "case_id"))
                    best = &results.rows.ptr[row].ptr[at].val.text;
        }
    }
    /* Without values there is no advice. */
    advice->ptr = NULL;
    advice->len = 0;
    if (best == NULL) return true;
    advice_t *one = advice->ptr = calloc(1, sizeof *one);
    if (one == NULL) abort();
    advice->len = 1;
    one->title = joined("use ", *best, ": lowest latency.p50");
    one->explanation = joined("Its latency.p50 is the lowest of all cases: ", *best, ".");
    one->cases.ptr = malloc(sizeof *one->cases.ptr);
    one->cases.len = 1;
    one->cases.ptr[0] = joined("", *best, "");
    return true;
}
