//! The worker process. It is started by `host`, and speaks its protocol; see the library.

fn main() {
    host_worker::serve()
}
