//! A folder with a small server in it, for tests of commands that talk to servers.

use std::path::PathBuf;

/// A folder that is gone at the end.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with this Python program, whose first argument says how it behaves.
    pub fn with_server(program: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("server.py", program);
        folder
    }

    /// Something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command of the server that behaves like this.
    pub fn server(&self, how: &str) -> Vec<String> {
        let program = self.path("server.py");
        ["python3", program.to_str().unwrap(), how]
            .map(str::to_owned)
            .to_vec()
    }
}
