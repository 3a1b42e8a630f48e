# The programs for Nix, from an archive that `cargo xtask package --format archive` made:
#
#   pkgs.callPackage ./package.nix { archive = ./mcpinspectd-0.1.0-x86_64-linux.tar.gz; }
#
# They are not compiled by Nix: the probes need the very compiler that rust-toolchain.toml pins, with
# the source of its core library, and the linker that goes with its LLVM.
{
  lib,
  stdenv,
  autoPatchelfHook,
  archive,
  version ? "0.1.0",
}:

stdenv.mkDerivation {
  pname = "mcpinspectd";
  inherit version;
  src = archive;

  nativeBuildInputs = [ autoPatchelfHook ];
  buildInputs = [ stdenv.cc.cc.lib ];

  dontConfigure = true;
  dontBuild = true;
  # They are stripped already, and as installed equal those of the other packages.
  dontStrip = true;

  installPhase = ''
    runHook preInstall
    mkdir -p $out
    cp -a usr/. $out/
    cp -a etc $out/etc
    for unit in $out/lib/systemd/system/*.service $out/lib/systemd/user/*.service; do
      substituteInPlace "$unit" --replace-fail /usr/bin/ $out/bin/
    done
    for file in $out/share/dbus-1/system-services/*.service; do
      substituteInPlace "$file" --replace-quiet /usr/bin/ $out/bin/
    done
    runHook postInstall
  '';

  meta = {
    description = "Watches every MCP server on a Linux machine with eBPF, without wrapping anything";
    license = lib.licenses.mit;
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "mcpinspect";
  };
}
