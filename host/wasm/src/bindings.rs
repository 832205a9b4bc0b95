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
                include tare:plugin/metric-plugin@0.1.4;
                import tare:plugin/views@0.1.4;
                import tare:plugin/view-parts@0.1.4;
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

/// Converts a table of the host into the type of a world.
macro_rules! tables {
    ($($world:ident),*) => {$(
        impl From<host_record::Table> for $world::tare::plugin::types::Table {
            fn from(table: host_record::Table) -> Self {
                use host_record::Cell;
                use $world::tare::plugin::types;

                let cell = |cell| match cell {
                    Cell::Null => types::Cell::Null,
                    Cell::Boolean(value) => types::Cell::Boolean(value),
                    Cell::Integer(value) => types::Cell::Integer(value),
                    Cell::Real(value) => types::Cell::Real(value),
                    Cell::Text(value) => types::Cell::Text(value),
                };
                let rows = table.rows.into_iter().map(|row| row.into_iter().map(cell).collect());
                Self { columns: table.columns, rows: rows.collect() }
            }
        }
    )*};
}

tables!(report, run_metric, recommender);
