//! A server on the Rust SDK. With the argument `pipes` it takes the SDK's non-blocking standard
//! streams, which open the pipes a second time. ECHO_DESCRIPTION says what its tool says of itself.

#[path = "shared/echo.rs"]
mod echo;
#[path = "shared/logged.rs"]
mod logged;

use anyhow::Result;
use echo::Echo;
use logged::{Logged, open_log};
use rmcp::ServiceExt;

#[tokio::main]
async fn main() -> Result<()> {
    let log = open_log("server")?;
    let echo = Echo::described(std::env::var("ECHO_DESCRIPTION").ok());
    if std::env::args().nth(1).as_deref() == Some("pipes") {
        let (input, output) = rmcp::transport::stdio_pipes();
        let wire = (Logged::new(input, &log), Logged::new(output, &log));
        echo.serve(wire).await?.waiting().await?;
    } else {
        let (input, output) = rmcp::transport::stdio();
        let wire = (Logged::new(input, &log), Logged::new(output, &log));
        echo.serve(wire).await?.waiting().await?;
    }
    Ok(())
}
