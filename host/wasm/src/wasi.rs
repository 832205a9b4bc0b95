/*!
The part of WASI that guests need to start, with nothing of this machine in it.

Guests are built for `wasm32-wasip2` or by a compiler of another language, whose library imports WASI whether or not the
plugin uses it: a metric in Rust without a single system call imports the environment, exit, the three standard streams,
their terminals, and `wasi:io`; Python and JavaScript also read the clock and random numbers when they start. So this much
exists, and is the same in every call on every machine:

- the environment and the arguments are empty, there is no terminal, and standard input has ended;
- standard output and standard error go to a buffer, whose end is shown with an error, because it
  contains the message of a panic;
- there is no file and no folder: the list of folders is empty;
- the clock stands still and random numbers are a fixed sequence ([`stand_ins`](crate::stand_ins)), so a plugin that
  iterates over a hash map gives the same answer every time;
- everything else exists, so a guest that only imports it can start. Calling it traps with a message that names the
  missing ability and the alternative.

`wasmtime-wasi` could be set up to grant as little, and serves classic modules. For components it is not used. A sleep or a
poll of it waits in the host for as long as the guest says, where neither fuel nor the deadline end it. It defines the
versions and interfaces that it knows, while interpreters import sockets and HTTP that nothing may answer, so that traps
would have to be defined here as well. And it has code for files and for the network, which one wrong setting would
expose.

Functions are defined under whichever 0.2.x version the component names, by walking its imports.
*/

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource, ResourceType, WasmList};
use wasmtime::{Engine, StoreContextMut};

use crate::console::KEPT;
use crate::error::shortened;
use crate::stand_ins::{HANDLES, Handles};
use crate::state::State;

/// Limit on the random bytes of one call of a function.
const RANDOM_BYTES: u64 = 1 << 20;

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
    (
        "wasi:clocks/",
        "only a clock that stands still; what was measured is in the columns and views",
    ),
    (
        "wasi:random/",
        "only a fixed sequence of random numbers; an answer has to be the same every time",
    ),
    ("wasi:filesystem/", "no files; a report writes through the `output` interface"),
    ("wasi:sockets/", "no network"),
    ("wasi:http/", "no network"),
    ("wasi:cli/exit", "no process to end; return an error instead"),
    ("wasi:io/", "no streams other than the standard ones"),
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
struct Folder;
struct Other;

fn resource_type(name: &str) -> ResourceType {
    match name {
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => ResourceType::host::<Pollable>(),
        "error" => ResourceType::host::<StreamFailure>(),
        "terminal-input" => ResourceType::host::<TerminalInput>(),
        "terminal-output" => ResourceType::host::<TerminalOutput>(),
        "descriptor" => ResourceType::host::<Folder>(),
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

/// `wasi:clocks/wall-clock.datetime`.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

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
                linker.resource(item, resource_type(item), |mut store, index| {
                    // Others are never made.
                    store.data_mut().handles.remove(index);
                    Ok(())
                })?;
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
                handle::<InputStream>(store, 0)
            }),
        ("wasi:cli/stdout", "get-stdout") | ("wasi:cli/stderr", "get-stderr") => linker
            .func_wrap(function, |store: StoreContextMut<'_, State>, (): ()| {
                handle::<OutputStream>(store, 0)
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
        ("wasi:io/streams", "[method]input-stream.read" | "[method]input-stream.blocking-read") => {
            linker.func_wrap(
                function,
                |_: StoreContextMut<'_, State>, _: (Resource<InputStream>, u64)| {
                    Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
                },
            )
        }
        ("wasi:io/streams", "[method]input-stream.skip" | "[method]input-stream.blocking-skip") => {
            linker.func_wrap(
                function,
                |_: StoreContextMut<'_, State>, _: (Resource<InputStream>, u64)| {
                    Ok((Err::<u64, _>(StreamError::Closed),))
                },
            )
        }
        // Streams are always ready.
        ("wasi:io/streams", "[method]output-stream.subscribe") => linker.func_wrap(
            function,
            |store: StoreContextMut<'_, State>, (_,): (Resource<OutputStream>,)| {
                handle::<Pollable>(store, 0)
            },
        ),
        ("wasi:io/streams", "[method]input-stream.subscribe") => linker.func_wrap(
            function,
            |store: StoreContextMut<'_, State>, (_,): (Resource<InputStream>,)| {
                handle::<Pollable>(store, 0)
            },
        ),
        ("wasi:io/poll", "[method]pollable.block") => linker.func_wrap(
            function,
            |mut store: StoreContextMut<'_, State>, (one,): (Resource<Pollable>,)| {
                let state = store.data_mut();
                state.clock.sleep_until(ready_at(&state.handles, &one)?);
                Ok(())
            },
        ),
        ("wasi:io/poll", "[method]pollable.ready") => linker.func_wrap(
            function,
            |store: StoreContextMut<'_, State>, (one,): (Resource<Pollable>,)| {
                let state = store.data();
                Ok((state.clock.has_reached(ready_at(&state.handles, &one)?),))
            },
        ),
        ("wasi:io/poll", "poll") => linker.func_wrap(function, poll),
        ("wasi:clocks/monotonic-clock", "now") => {
            linker.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                let State { clock, plugin, .. } = store.data_mut();
                Ok((clock.now(plugin),))
            })
        }
        ("wasi:clocks/monotonic-clock", "resolution") => {
            linker.func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| Ok((1_u64,)))
        }
        ("wasi:clocks/monotonic-clock", "subscribe-instant") => {
            linker.func_wrap(function, |store: StoreContextMut<'_, State>, (instant,): (u64,)| {
                handle::<Pollable>(store, instant)
            })
        }
        ("wasi:clocks/monotonic-clock", "subscribe-duration") => {
            linker.func_wrap(function, |store: StoreContextMut<'_, State>, (duration,): (u64,)| {
                let instant = store.data().clock.after(duration);
                handle::<Pollable>(store, instant)
            })
        }
        ("wasi:clocks/wall-clock", "now") => {
            linker.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                let State { clock, plugin, .. } = store.data_mut();
                let (seconds, nanoseconds) = clock.wall(plugin);
                Ok((Datetime { seconds, nanoseconds },))
            })
        }
        ("wasi:clocks/wall-clock", "resolution") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((Datetime { seconds: 0, nanoseconds: 1 },))
            }),
        ("wasi:random/random", "get-random-bytes")
        | ("wasi:random/insecure", "get-insecure-random-bytes") => linker.func_wrap(
            function,
            |mut store: StoreContextMut<'_, State>, (length,): (u64,)| {
                if length > RANDOM_BYTES {
                    wasmtime::bail!("it asked for more than {RANDOM_BYTES} random bytes at once");
                }
                Ok((store.data_mut().random.bytes(usize::try_from(length)?),))
            },
        ),
        ("wasi:random/random", "get-random-u64")
        | ("wasi:random/insecure", "get-insecure-random-u64") => linker
            .func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().random.next(),))
            }),
        ("wasi:random/insecure-seed", "insecure-seed") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok(((0x7461_7265_u64, 0x7365_6564_u64),))
            }),
        ("wasi:filesystem/preopens", "get-directories") => linker
            .func_wrap(function, |_: StoreContextMut<'_, State>, (): ()| {
                Ok((Vec::<(Resource<Folder>, String)>::new(),))
            }),
        _ => {
            let (interface, name) = (interface.to_owned(), function.to_owned());
            linker.func_new(function, move |_, _, _, _| Err(denied(&interface, &name).into()))
        }
    }
}

fn handle<T: 'static>(
    mut store: StoreContextMut<'_, State>,
    ready_at: u64,
) -> wasmtime::Result<(Resource<T>,)> {
    let index = store.data_mut().handles.insert(ready_at);
    let index =
        index.ok_or_else(|| wasmtime::format_err!("the guest has more streams than {HANDLES}"))?;
    Ok((Resource::new_own(index),))
}

fn ready_at(handles: &Handles, pollable: &Resource<Pollable>) -> wasmtime::Result<u64> {
    let found = handles.ready_at(pollable.rep());
    found.ok_or_else(|| wasmtime::format_err!("there is no such pollable"))
}

/// Returns the indices of those that are ready. If none is, the guest sleeps until the first is.
fn poll(
    mut store: StoreContextMut<'_, State>,
    (pollables,): (Vec<Resource<Pollable>>,),
) -> wasmtime::Result<(Vec<u32>,)> {
    let State { clock, handles, .. } = store.data_mut();
    let instants = pollables.iter().map(|one| ready_at(handles, one));
    let instants: Vec<u64> = instants.collect::<Result<_, _>>()?;
    let Some(first) = instants.iter().min() else {
        wasmtime::bail!("it waits for nothing, which never ends");
    };
    clock.sleep_until(*first);
    let ready = (0..).zip(&instants).filter(|(_, instant)| clock.has_reached(**instant));
    Ok((ready.map(|(index, _)| index).collect(),))
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
            denied("wasi:sockets/tcp-create-socket", "create-tcp-socket").without,
            @"no network"
        );
        insta::assert_snapshot!(
            denied("wasi:unheard/of", "x").without,
            @"nothing but their own interfaces"
        );
    }
}
