//! Bindings generated from `plugin-api/wit`.
//!
//! A metric borrows its columns, so that ten million values are copied once, into the guest, and not twice.

pub(crate) mod metric {
    // With borrowed types, `bindgen!` gives types that a world does not use a lifetime that they do not declare. The
    // views use all of them; the linker does not offer the views to a metric.
    wasmtime::component::bindgen!({
        path: "../../plugin-api/wit",
        inline: "
            package tare:host;

            world metric-plugin {
                include tare:plugin/metric-plugin@0.1.3;
                import tare:plugin/views@0.1.3;
            }
        ",
        world: "tare:host/metric-plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

pub(crate) mod report {
    wasmtime::component::bindgen!({
        path: "../../plugin-api/wit",
        world: "report-plugin",
    });
}

pub(crate) mod run_metric {
    wasmtime::component::bindgen!({
        path: "../../plugin-api/wit",
        world: "run-metric-plugin",
    });
}

pub(crate) mod recommender {
    wasmtime::component::bindgen!({
        path: "../../plugin-api/wit",
        world: "recommender-plugin",
    });
}
