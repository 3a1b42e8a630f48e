//! A client or a server that moves its bytes in the way it is told; see `mcpinspect_tests::peer`.

use anyhow::Result;
use clap::Parser;
use mcpinspect_tests::peer::{client, server};

#[derive(Parser)]
enum Role {
    /// Starts a server and follows a plan.
    Client(client::ClientOptions),
    /// Serves on its standard streams.
    Server(server::ServerOptions),
}

fn main() -> Result<()> {
    match Role::parse() {
        Role::Client(options) => client::run(options),
        Role::Server(options) => server::run(options),
    }
}
