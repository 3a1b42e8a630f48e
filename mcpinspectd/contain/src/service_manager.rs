//! Asks the system's service manager to freeze or thaw one of its units.

use std::io;
use std::time::Duration;

use mcpinspect_core::model::ContainmentAction;

/// How long it may take. It answers when it is done.
const PATIENCE: Duration = Duration::from_secs(2);

/// Freezes or thaws a unit, if its control group is `cgroup`.
pub(super) fn ask(cgroup: &str, unit: &str, measure: ContainmentAction) -> io::Result<()> {
    const MANAGER: &str = "org.freedesktop.systemd1";
    const AT: &str = "/org/freedesktop/systemd1";
    let method = match measure {
        ContainmentAction::Freeze => "FreezeUnit",
        ContainmentAction::Thaw => "ThawUnit",
        ContainmentAction::Kill => return Err(io::ErrorKind::Unsupported.into()),
    };
    let interface = match unit.ends_with(".scope") {
        true => "org.freedesktop.systemd1.Scope",
        false => "org.freedesktop.systemd1.Service",
    };
    let asked = async {
        let bus = zbus::Connection::system().await?;
        let manager =
            zbus::Proxy::new(&bus, MANAGER, AT, "org.freedesktop.systemd1.Manager").await?;
        let object: zbus::OwnedObjectPath = manager.call("GetUnit", &unit).await?;
        let its = zbus::Proxy::new(&bus, MANAGER, object, interface).await?;
        let group: String = its.get_property("ControlGroup").await?;
        if group != cgroup {
            return Err(zbus::Error::Failure(format!(
                "{unit} is a different control group"
            )));
        }
        manager.call::<_, _, ()>(method, &unit).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await }) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(io::Error::other(error.to_string())),
        Err(_) => Err(io::ErrorKind::WouldBlock.into()),
    }
}
