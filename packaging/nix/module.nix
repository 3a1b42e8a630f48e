# A service for NixOS:
#
#   imports = [ ./module.nix ];
#   services.mcpinspectd = {
#     enable = true;
#     package = pkgs.callPackage ./package.nix { archive = …; };
#   };
{ config, lib, ... }:

let
  settings = config.services.mcpinspectd;
in
{
  options.services.mcpinspectd = {
    enable = lib.mkEnableOption "watching every MCP server on this machine";

    package = lib.mkOption {
      type = lib.types.package;
      description = "The programs, from package.nix.";
    };

    settings = lib.mkOption {
      type = lib.types.lines;
      default = "";
      description = "The text of /etc/mcpinspectd/config.toml; see mcpinspectd.toml(5).";
    };
  };

  config = lib.mkIf settings.enable {
    environment.systemPackages = [ settings.package ];
    environment.etc."mcpinspectd/config.toml".text = settings.settings;

    users.groups.mcpinspect = { };
    systemd.packages = [ settings.package ];
    systemd.tmpfiles.packages = [ settings.package ];
    services.dbus.packages = [ settings.package ];

    # Units of packages are not enabled by their [Install] sections.
    systemd.services.mcpinspectd.wantedBy = [ "multi-user.target" ];
    systemd.user.services.mcpinspect-notify.wantedBy = [ "graphical-session.target" ];
  };
}
