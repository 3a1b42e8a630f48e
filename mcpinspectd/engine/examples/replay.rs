//! Replays a tape through the engine and prints the title of everything that it reports.
//!
//! ```sh
//! cargo run --package mcpinspect-engine --example replay              # writes a short tape and replays it
//! cargo run --package mcpinspect-engine --example replay -- FILE      # replays FILE
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use mcpinspect_core::model::{Direction, EndReason, Input, InputSink};
use mcpinspect_core::source::script::Script;
use mcpinspect_core::source::tape::{TapeReader, TapeWriter};
use mcpinspect_engine::event::render;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;

/// Prints what the engine tells.
struct Print;

impl OutputSink for Print {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let what = message.method().unwrap_or("-");
                println!("{}  {what}", message.frame.direction.as_str());
            }
            Output::Event(event) => println!("{}", render::title(event)),
            _ => {}
        }
    }
}

/// Takes a source's inputs to the engine.
struct Replay {
    engine: Engine,
}

impl InputSink for Replay {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut Print);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let tape = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => {
            let path = std::env::temp_dir().join("example.tape");
            record(&path)?;
            path
        }
    };
    let mut source = TapeReader::new(BufReader::new(File::open(tape)?))?;
    let mut replay = Replay {
        engine: Engine::new(
            Limits::default(),
            Registry::in_memory(),
            Box::new(NoDetector),
        ),
    };
    mcpinspect_core::source::run(&mut source, &AtomicBool::new(false), &mut replay, |_, _| {})?;
    Ok(())
}

/// Writes the tape of a session in which a client lists a server's tools.
fn record(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut tape = TapeWriter::new(BufWriter::new(File::create(path)?))?;
    let mut session = Script::new("notes");
    tape.write(&session.start())?;
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    tape.write(&session.line(Direction::ClientToServer, request))?;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}}"#;
    tape.write(&session.line(Direction::ServerToClient, answer))?;
    tape.write(&session.end(EndReason::ServerExited))?;
    tape.finish()?.flush()?;
    Ok(())
}
