//! What people use today to see a server's messages: a process in between that copies both
//! directions to a file. Here only to be compared with: `stdio_proxy FILE SERVER ARGUMENT…`

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

fn copy(mut from: impl Read, mut to: impl Write, mut file: File) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..count])?;
        to.write_all(&buffer[..count])?;
        to.flush()?;
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let file = File::create(arguments.next().context("no file given")?)?;
    let mut server = Command::new(arguments.next().context("no server given")?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = server.stdin.take().context("the server's input")?;
    let output = server.stdout.take().context("the server's output")?;
    let copy_of_file = file.try_clone()?;
    // The server's input closes when this thread ends, and with it the session.
    let to_server = std::thread::spawn(move || copy(std::io::stdin().lock(), input, file));
    copy(output, std::io::stdout().lock(), copy_of_file)?;
    server.wait()?;
    drop(to_server);
    Ok(())
}
