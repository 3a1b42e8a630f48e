//! A server as a client's configuration describes it, to be started under the name it has there.
//!
//! The daemon reads configurations only for names, and of any user. A person who names a server wants
//! everything the client would use: the command, its environment, or the URL. So this reads the configurations
//! of the person who asks, with secrets and variables, and leaves out what only the client knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mcpinspect_core::model::Pid;
use serde::Deserialize;
use thiserror::Error;

use super::clients::{self, Described};
use super::config_file::{self, Argument, Command};
use crate::reader::Reader;

/// How a configured server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAccess {
    /// Its process is started.
    Process {
        /// The program and its arguments.
        command: Vec<String>,
        /// The directory to start it in; `None` is the client's own.
        directory: Option<PathBuf>,
        /// Variables in addition to the client's own.
        environment: Vec<(String, String)>,
    },
    /// It is already running.
    Url {
        /// Where.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// Why a name leads to no server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfiguredError {
    /// No configuration has it.
    #[error("no client configuration has a server `{0}`")]
    Unknown(String),
    /// Its description cannot be used.
    #[error("`{name}` in {} cannot be used: {reason}", file.display())]
    Unusable {
        /// The name.
        name: String,
        /// The configuration.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Whose configurations to read, and from where.
#[derive(Clone, Copy, Debug)]
pub struct ConfigScope<'a> {
    /// The working directory; projects above it count.
    pub directory: &'a Path,
    /// The home directory.
    pub home: Option<&'a str>,
}

/// Finds the server `NAME`, or `CLIENT:NAME`: in the project's configurations first, then in the user's.
///
/// # Errors
/// There is none, or its description cannot be used.
pub fn find(
    name: &str,
    scope: ConfigScope<'_>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ServerAccess, ConfiguredError> {
    let own = Pid(std::process::id());
    let reader = Reader::of(own, rustix::process::geteuid().as_raw());
    let of_client = name.split_once(':');
    let described = clients::described(name, scope.directory, scope.home, &reader).next();
    let described = described.or_else(|| {
        let (client, name) = of_client?;
        clients::described(name, scope.directory, scope.home, &reader)
            .find(|described| described.client == client)
    });
    match described {
        Some(described) => way(&described, name, scope, &variable),
        None => Err(ConfiguredError::Unknown(name.to_owned())),
    }
}

/// What a configuration says about a server, where it matters here. Gemini says `httpUrl`, Windsurf
/// `serverUrl`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Description {
    command: Option<Command>,
    args: Vec<Argument>,
    cwd: Option<String>,
    /// OpenCode says `environment`.
    #[serde(alias = "environment")]
    env: BTreeMap<String, Argument>,
    url: Option<String>,
    http_url: Option<String>,
    server_url: Option<String>,
    headers: BTreeMap<String, String>,
}

fn way(
    described: &Described,
    name: &str,
    scope: ConfigScope<'_>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<ServerAccess, ConfiguredError> {
    let incomplete = |reason: String| ConfiguredError::Unusable {
        name: name.to_owned(),
        file: described.file.clone(),
        reason,
    };
    let description: Description =
        serde_json::from_str(&described.text).map_err(|error| incomplete(error.to_string()))?;
    let fill = |text: String| {
        filled(&text, scope, variable).map_err(|name| {
            incomplete(format!(
                "it uses `{name}`, which is not set in the environment"
            ))
        })
    };
    let fill_all = |pairs: Vec<(String, String)>| -> Result<Vec<_>, ConfiguredError> {
        let filled = pairs
            .into_iter()
            .map(|(name, value)| Ok((name, fill(value)?)));
        filled.collect()
    };
    if let Some(command) = description.command {
        let command = config_file::argv(command, description.args).into_iter();
        let environment = description.env.into_iter();
        let environment = environment.map(|(name, value)| (name, value.text()));
        return Ok(ServerAccess::Process {
            command: command.map(&fill).collect::<Result<_, _>>()?,
            directory: description.cwd.map(&fill).transpose()?.map(PathBuf::from),
            environment: fill_all(environment.collect())?,
        });
    }
    let url = description.url.or(description.http_url);
    match url.or(description.server_url) {
        Some(url) => Ok(ServerAccess::Url {
            url: fill(url)?,
            headers: fill_all(description.headers.into_iter().collect())?,
        }),
        None => Err(incomplete("it has neither a command nor a URL".to_owned())),
    }
}

/// Substitutes variables: `${NAME}`, `${NAME:-DEFAULT}`, `${env:NAME}`, `${userHome}` and
/// `${workspaceFolder}`.
///
/// # Errors
/// The one that has no value, or that only a client can ask for (`${input:key}`).
pub fn filled(
    text: &str,
    scope: ConfigScope<'_>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else {
            break;
        };
        whole.push_str(before);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inner.strip_prefix("env:").unwrap_or(inner), None),
        };
        let value = match name {
            "userHome" => scope.home.map(str::to_owned),
            "workspaceFolder" => scope.directory.to_str().map(str::to_owned),
            name => variable(name),
        };
        match value.or(default) {
            Some(value) => whole.push_str(&value),
            None => return Err(format!("${{{inner}}}")),
        }
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    struct Folders(tempfile::TempDir);

    impl Folders {
        fn new() -> Self {
            let folders = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(folders.path("home/p/src")).unwrap();
            folders
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, value: serde_json::Value) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("// a comment\n{value}")).unwrap();
        }

        fn find(&self, name: &str) -> Result<ServerAccess, ConfiguredError> {
            let (directory, home) = (self.path("home/p/src"), self.path("home"));
            let scope = ConfigScope {
                directory: &directory,
                home: home.to_str(),
            };
            find(name, scope, |name| {
                (name == "TOKEN").then(|| "t0ken".to_owned())
            })
        }
    }

    fn process(command: &[&str]) -> ServerAccess {
        ServerAccess::Process {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            directory: None,
            environment: Vec::new(),
        }
    }

    #[test]
    fn the_nearest_configuration_decides_unless_a_client_is_named() {
        let folders = Folders::new();
        let servers = |command: &str| json!({"mcpServers": {"s": {"command": command}}});
        folders.write("home/.cursor/mcp.json", servers("home"));
        assert_eq!(folders.find("s").unwrap(), process(&["home"]));
        let project = folders.path("home/p");
        folders.write(
            "home/.claude.json",
            json!({"mcpServers": {"s": {"command": "everywhere"}, "t": {"command": "t"}},
            "projects": {project.to_str().unwrap(): servers("here"), "/other": servers("there")}}),
        );
        assert_eq!(folders.find("s").unwrap(), process(&["here"]));
        assert_eq!(folders.find("cursor:s").unwrap(), process(&["home"]));
        folders.write("home/p/.mcp.json", servers("project"));
        assert_eq!(folders.find("s").unwrap(), process(&["project"]));
        assert_eq!(folders.find("t").unwrap(), process(&["t"]));
        assert_eq!(
            folders.find("x").unwrap_err(),
            ConfiguredError::Unknown("x".to_owned())
        );
    }

    #[test]
    fn a_description_is_used_as_its_client_would() {
        let folders = Folders::new();
        folders.write("home/.mcp.json", json!({}));
        folders.write("home/.gemini/settings.json", json!({"mcpServers": {
            "full": {"command": "npx", "args": ["-y", 5, "${workspaceFolder}"], "cwd": "${userHome}/p",
                "env": {"KEY": "${TOKEN}", "OLD": "${env:TOKEN}-x", "NONE": "${GONE:-d}", "N": 1}},
            "http": {"httpUrl": "https://example.org/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "asks": {"command": "x", "args": ["${input:key}"]},
            "empty": {"type": "stdio"},
        }}));
        let home = folders.path("home");
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            folders.find("full").unwrap(),
            ServerAccess::Process {
                command: vec![
                    "npx".into(),
                    "-y".into(),
                    "5".into(),
                    home.join("p/src").to_str().unwrap().into()
                ],
                directory: Some(home.join("p")),
                environment: pairs(&[
                    ("KEY", "t0ken"),
                    ("N", "1"),
                    ("NONE", "d"),
                    ("OLD", "t0ken-x")
                ]),
            }
        );
        assert_eq!(
            folders.find("http").unwrap(),
            ServerAccess::Url {
                url: "https://example.org/t0ken".to_owned(),
                headers: pairs(&[("Authorization", "Bearer t0ken")]),
            }
        );
        for (name, reason) in [
            ("asks", "${input:key}"),
            ("empty", "neither a command nor a URL"),
        ] {
            let error = folders.find(name).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
