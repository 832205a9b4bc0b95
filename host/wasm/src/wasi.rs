/*!
The part of WASI that a guest needs to start and to panic.

Guests are built for `wasm32-wasip2`, whose standard library imports WASI whether or not the plugin
uses it: a metric without a single system call still imports the environment, exit, the three
standard streams, their terminals, and `wasi:io`. `wasmtime-wasi` offers all that with nothing granted, but brings
tokio, cap-std and about eighty crates, clocks and random numbers that it always grants, and file and network code
that one mistake would expose to a guest. The necessary part is small:

- the environment and the arguments are empty, and there is no terminal;
- standard output and standard error go to a buffer, whose end is shown with an error, because it
  contains the message of a panic;
- the seed of hash maps (`insecure-seed`) is a constant, which its specification allows, so that a
  plugin that iterates over a `HashMap` gives the same answer every time;
- everything else exists, so a guest that only imports it can start. Calling it traps with a message that names the
  missing ability and the alternative.

Functions are defined under whichever 0.2.x version the component names, by walking its imports.
*/

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource, ResourceType, WasmList};
use wasmtime::{Engine, StoreContextMut};

use crate::console::KEPT;
use crate::error::shortened;
use crate::state::State;

/// Limit on the streams and pollables of a guest. Each costs the host a few bytes.
const HANDLES: usize = 10_000;

/// Limit on the items of one imported interface. WASI's interfaces have at most about a hundred.
const ITEMS: usize = 200;

/// The guest called a function that is not granted.
#[derive(Debug, thiserror::Error)]
#[error("`{function}` is not granted")]
pub(crate) struct Denied {
    pub(crate) function: String,
    pub(crate) without: &'static str,
}

/// Missing abilities of plugins, by the beginning of the interface's name.
const WITHOUT: &[(&str, &str)] = &[
    ("wasi:clocks/", "no clock; what was measured is in the columns and views"),
    ("wasi:random/", "no random numbers; an answer has to be the same every time"),
    ("wasi:filesystem/", "no files; a report writes through the `output` interface"),
    ("wasi:sockets/", "no network"),
    ("wasi:http/", "no network"),
    ("wasi:cli/exit", "no process to end; return an error instead"),
    ("wasi:io/", "no input and no streams other than standard output and standard error"),
];

fn denied(interface: &str, function: &str) -> Denied {
    let without = WITHOUT
        .iter()
        .find(|(prefix, _)| interface.starts_with(prefix))
        .map_or("nothing but their own interfaces", |(_, without)| without);
    Denied { function: format!("{}.{}", shortened(interface), shortened(function)), without }
}

// Each resource needs a type, and has no content.
struct InputStream;
struct OutputStream;
struct Pollable;
struct StreamFailure;
struct TerminalInput;
struct TerminalOutput;
struct Other;

fn resource_type(name: &str) -> ResourceType {
    match name {
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => ResourceType::host::<Pollable>(),
        "error" => ResourceType::host::<StreamFailure>(),
        "terminal-input" => ResourceType::host::<TerminalInput>(),
        "terminal-output" => ResourceType::host::<TerminalOutput>(),
        _ => ResourceType::host::<Other>(),
    }
}

/// `wasi:io/streams.stream-error`. Writing to a buffer does not fail, so none is ever created.
#[derive(ComponentType, Lower)]
#[component(variant)]
#[expect(dead_code, reason = "the type is needed, its values are not")]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<StreamFailure>),
    #[component(name = "closed")]
    Closed,
}

type Written = (Result<(), StreamError>,);

/// Defines one imported interface of WASI, as the component expects it. `name` is as imported,
/// with its version.
pub(crate) fn define(
    engine: &Engine,
    linker: &mut LinkerInstance<'_, State>,
    name: &str,
    expected: &ComponentInstance,
) -> wasmtime::Result<()> {
    let interface = name.split_once('@').map_or(name, |(interface, _)| interface);
    for (index, (item, export)) in expected.exports(engine).enumerate() {
        if index == ITEMS {
            wasmtime::bail!("it imports more than {ITEMS} items of one interface");
        }
        match export.ty {
            ComponentItem::Resource(_) => {
                linker.resource(item, resource_type(item), |_, _| Ok(()))?;
            }
            ComponentItem::ComponentFunc(_) => define_function(linker, interface, item)?,
            // Other types have names but no definition.
            _ => {}
        }
    }
    Ok(())
}

fn define_function(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match (interface, function) {
        ("wasi:cli/environment", "get-environment") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((Vec::<(String, String)>::new(),))
            }),
        ("wasi:cli/environment", "get-arguments") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((Vec::<String>::new(),))
            }),
        ("wasi:cli/environment", "initial-cwd") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| Ok((None::<String>,))),
        ("wasi:cli/stdin", "get-stdin") => linker
            .func_wrap(function, |store: StoreContextMut<'_, State>, (): ()| {
                handle::<InputStream>(store)
            }),
        ("wasi:cli/stdout", "get-stdout") | ("wasi:cli/stderr", "get-stderr") => linker
            .func_wrap(function, |store: StoreContextMut<'_, State>, (): ()| {
                handle::<OutputStream>(store)
            }),
        ("wasi:cli/terminal-stdin", "get-terminal-stdin") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((None::<Resource<TerminalInput>>,))
            }),
        ("wasi:cli/terminal-stdout", "get-terminal-stdout")
        | ("wasi:cli/terminal-stderr", "get-terminal-stderr") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((None::<Resource<TerminalOutput>>,))
            }),
        ("wasi:io/streams", "[method]output-stream.check-write") => linker.func_wrap(
            function,
            |_: StoreContextMut<'_, State>, (_,): (Resource<OutputStream>,)| {
                Ok((Ok::<_, StreamError>(KEPT as u64),))
            },
        ),
        (
            "wasi:io/streams",
            "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush",
        ) => linker.func_wrap(function, write),
        (
            "wasi:io/streams",
            "[method]output-stream.flush" | "[method]output-stream.blocking-flush",
        ) => linker.func_wrap(
            function,
            |_: StoreContextMut<'_, State>,
             (_,): (Resource<OutputStream>,)|
             -> wasmtime::Result<Written> { Ok((Ok(()),)) },
        ),
        ("wasi:io/streams", "[method]output-stream.subscribe") => linker.func_wrap(
            function,
            |store: StoreContextMut<'_, State>, (_,): (Resource<OutputStream>,)| {
                handle::<Pollable>(store)
            },
        ),
        // Pollables come from streams that are always ready.
        ("wasi:io/poll", "[method]pollable.block") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (_,): (Resource<Pollable>,)| {
                Ok(())
            }),
        ("wasi:io/poll", "[method]pollable.ready") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (_,): (Resource<Pollable>,)| {
                Ok((true,))
            }),
        ("wasi:random/insecure-seed", "insecure-seed") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok(((0x7461_7265_u64, 0x7365_6564_u64),))
            }),
        _ => {
            let (interface, name) = (interface.to_owned(), function.to_owned());
            linker.func_new(function, move |_, _, _, _| Err(denied(&interface, &name).into()))
        }
    }
}

fn handle<T: 'static>(mut store: StoreContextMut<'_, State>) -> wasmtime::Result<(Resource<T>,)> {
    let console = &mut store.data_mut().console;
    console.handles += 1;
    if console.handles > HANDLES {
        wasmtime::bail!("the guest asked for more than {HANDLES} streams");
    }
    Ok((Resource::new_own(0),))
}

fn write(
    mut store: StoreContextMut<'_, State>,
    (_, bytes): (Resource<OutputStream>, WasmList<u8>),
) -> wasmtime::Result<Written> {
    // Only the end is kept; copying that much frees the borrow of the guest's memory.
    let bytes = bytes.as_le_slice(&store);
    let end = bytes[bytes.len().saturating_sub(KEPT)..].to_vec();
    store.data_mut().console.write(&end);
    Ok((Ok(()),))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_says_what_plugins_do_without() {
        insta::assert_snapshot!(
            denied("wasi:clocks/monotonic-clock", "now").without,
            @"no clock; what was measured is in the columns and views"
        );
        insta::assert_snapshot!(
            denied("wasi:unheard/of", "x").without,
            @"nothing but their own interfaces"
        );
    }
}
