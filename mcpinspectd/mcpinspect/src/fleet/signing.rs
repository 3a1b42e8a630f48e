//! minisign keys and signatures: `mcpinspect fleet keygen`, and signing lists.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mcpinspect_cli::terminal;
use minisign::{KeyPair, PublicKey, SecretKey, SecretKeyBox};

/// Create a key that signs approval lists
///
/// Writes the secret key to FILE, which only you can read, and the public key beside it, with the ending
/// `.pub`. Both are minisign keys, so `minisign -G` can create them as well. The public key goes into
/// `[approvals]` in the configuration of each machine.
#[derive(clap::Args)]
pub struct Keygen {
    /// Where to write the secret key.
    file: PathBuf,
    #[command(flatten)]
    password: Password,
    /// Do not protect the secret key with a password.
    #[arg(long, conflicts_with = "password_file")]
    no_password: bool,
}

/// The password of a secret key.
#[derive(clap::Args)]
pub struct Password {
    /// Read the secret key's password from the first line of this file. Default: ask for it.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl Password {
    fn read(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.password_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
    }
}

impl Keygen {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let public = self.file.with_extension("pub");
        anyhow::ensure!(
            public != self.file,
            "{} is the name of a public key; give the secret key another name",
            self.file.display()
        );
        let pair = match self.no_password {
            true => KeyPair::generate_unencrypted_keypair(),
            false => KeyPair::generate_encrypted_keypair(self.password.read()?),
        };
        let KeyPair { pk, sk } = pair.context("cannot make a key")?;
        let secret = sk.to_box(Some("signs approval lists of mcpinspect"))?;
        write_new(&self.file, &secret.into_string(), 0o600)?;
        write_new(&public, &pk.to_box()?.into_string(), 0o644)?;
        terminal::print(|out| {
            writeln!(out, "Secret key: {}", self.file.display())?;
            writeln!(out, "Public key: {}", public.display())?;
            writeln!(
                out,
                "\nOn each machine, in /etc/mcpinspectd/config.toml:\n\n[approvals]\nkeys = [\"{}\"]",
                pk.to_base64()
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Keys are never overwritten: everything they signed would be lost.
fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut file = options
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(())
}

/// A secret key that can sign.
pub struct Signer {
    secret: SecretKey,
    public: PublicKey,
}

/// Which secret key signs.
#[derive(clap::Args)]
pub struct SignerArguments {
    /// The secret key, made by `mcpinspect fleet keygen` or `minisign -G`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    password: Password,
}

impl SignerArguments {
    /// Reads the key, and asks for its password if it has one.
    pub fn open(&self) -> anyhow::Result<Signer> {
        let path = self.key.display();
        let text =
            std::fs::read_to_string(&self.key).with_context(|| format!("cannot read {path}"))?;
        let is_key = || format!("{path} is not a minisign secret key");
        let boxed = || SecretKeyBox::from_string(&text).with_context(is_key);
        let secret = match boxed()?.into_unencrypted_secret_key() {
            Ok(secret) => secret,
            Err(_) => match boxed()?.into_secret_key(self.password.read()?) {
                Ok(secret) => secret,
                Err(error) => bail!("cannot use the secret key {path}: {error}"),
            },
        };
        let public = PublicKey::from_secret_key(&secret).with_context(is_key)?;
        Ok(Signer { secret, public })
    }
}

impl Signer {
    /// Its public key.
    pub fn public(&self) -> String {
        self.public.to_base64()
    }

    /// The signature of a text.
    pub fn sign(&self, text: &str, comment: &str) -> anyhow::Result<String> {
        let signed = minisign::sign(
            Some(&self.public),
            &self.secret,
            text.as_bytes(),
            Some(comment),
            Some("signature from mcpinspect"),
        );
        Ok(signed.context("cannot sign the list")?.into_string())
    }
}
