//! A disk for virtual machines with the programs and libraries of the tests' peers.
//!
//! The machines share this machine's file system over 9p, where the kernel cannot attach probes to functions, and
//! where a thousand small modules take minutes to read. So what the peers consist of is copied to a disk, and in
//! the machine this is put over the originals.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{self, say};

/// Libraries in which TLS is looked into, and those that lead to them, by the start of their names.
const LIBRARIES: [&str; 4] = ["libssl.so.", "libcrypto.so.", "libgnutls.so.", "libcurl"];
/// Programs that the peers are.
const PROGRAMS: [&str; 2] = ["node", "curl"];
/// What `target/peers` has that the tests in machines use.
const PEERS: [&str; 3] = ["go", "node", "python"];

/// A disk image, and what is on it.
pub struct Disk {
    pub image: PathBuf,
    /// Folders and files, by their places on this machine.
    contents: BTreeSet<PathBuf>,
}

impl Disk {
    /// Makes one in `place`, with these programs too.
    pub fn new(place: &Path, programs: &[&Path]) -> Result<Self> {
        let contents = contents(programs)?;
        let (staged, image) = (place.join("disk"), place.join("disk.img"));
        say("putting the peers on a disk");
        if staged.exists() {
            std::fs::remove_dir_all(&staged)?;
        }
        std::fs::create_dir_all(&staged)?;
        let mut copy = Command::new("cp");
        // It looks for the parents from where it runs.
        copy.args(["--archive", "--parents"]).current_dir("/");
        shell::run(copy.args(&contents).arg(&staged))?;
        let size = shell::output(Command::new("du").args(["-sm"]).arg(&staged))?;
        let size: u64 = size
            .split_whitespace()
            .next()
            .and_then(|size| size.parse().ok())
            .context("`du` printed no size")?;
        // The file system's own tables are small beside a fourth.
        let room = format!("{}M", size + size / 4 + 64);
        let _ = std::fs::remove_file(&image);
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-d"]).arg(&staged);
        shell::run(make.arg(&image).arg(room))?;
        std::fs::remove_dir_all(&staged)?;
        Ok(Self { image, contents })
    }

    /// The option by which the emulator gets it.
    pub fn option(&self) -> String {
        format!(
            "--qemu-opts=-drive file={},if=virtio,format=raw,readonly=on",
            self.image.display()
        )
    }

    /// The part of a machine's script that puts what is on it over the originals.
    pub fn script(&self) -> String {
        let mut script = "modprobe -a virtio_blk ext4 2>/dev/null
mkdir -p /tmp/disk && mount -o ro /dev/vda /tmp/disk || echo 'no disk'
"
        .to_owned();
        for path in &self.contents {
            let path = path.display();
            let _ = writeln!(script, "mount --bind '/tmp/disk{path}' '{path}'");
        }
        script
    }
}

/// What goes on the disk, by its real place.
fn contents(programs: &[&Path]) -> Result<BTreeSet<PathBuf>> {
    let peers = shell::target().join("peers");
    let mut contents: BTreeSet<PathBuf> = PEERS.iter().map(|name| peers.join(name)).collect();
    // The environment's modules, but not Python itself, are in the environment.
    let mut python = Command::new(peers.join("python/bin/python"));
    let prefix = shell::output(python.args(["-c", "import sys; print(sys.base_prefix)"]))?;
    let prefix = PathBuf::from(prefix.trim());
    if prefix != Path::new("/usr") {
        contents.insert(prefix);
    }
    contents.extend(PROGRAMS.iter().filter_map(|name| shell::find(name)));
    contents.extend(programs.iter().map(|path| path.to_path_buf()));
    let known = shell::output(Command::new("/sbin/ldconfig").arg("-p"))?;
    let libraries = known.lines().filter_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let is_wanted = LIBRARIES.iter().any(|wanted| name.starts_with(wanted));
        is_wanted.then(|| PathBuf::from(path))
    });
    contents.extend(libraries);
    let real = contents.iter().map(|path| {
        path.canonicalize()
            .with_context(|| format!("{} is missing", path.display()))
    });
    real.collect()
}
