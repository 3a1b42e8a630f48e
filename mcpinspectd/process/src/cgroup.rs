//! The unit or container that a cgroup path names.
//!
//! systemd and container engines name cgroups after what they run. The path is a convention, not an
//! authority (processes in a container may name their own groups), so it is shown and matched on, but
//! never a reason to permit anything.

/// Length of the part of a container id that people use.
const SHORT_ID: usize = 12;

/// The cgroup path from `/proc/pid/cgroup`: that of the unified hierarchy unless it is the root, else
/// that of systemd's own hierarchy in the old layout, else `/`.
pub(super) fn path(file: &[u8]) -> String {
    let text = String::from_utf8_lossy(file);
    let of = |prefix: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.strip_prefix(prefix)
        })
    };
    match (of(":"), of("name=systemd:")) {
        (Some(unified), _) if unified != "/" => unified,
        (_, Some(systemd)) => systemd,
        (Some(unified), None) => unified,
        (None, None) => "/",
    }
    .to_owned()
}

/// The container or systemd unit that a cgroup path names: `docker:0123456789ab`, `podman:…`,
/// `k8s:…`, `machine:NAME`, `lxc:NAME`, else the innermost `.service` or `.scope`.
pub fn unit(path: &str) -> Option<String> {
    container(path).or_else(|| {
        path.rsplit('/')
            .find(|part| part.ends_with(".service") || part.ends_with(".scope"))
            .map(str::to_owned)
    })
}

fn container(path: &str) -> Option<String> {
    let in_pod = path.contains("/kubepods");
    let mut previous = "";
    for part in path.split('/') {
        let scope = part.strip_suffix(".scope").unwrap_or(part);
        if let Some((engine, id)) = scope.rsplit_once('-')
            && let Some(id) = short_id(id)
        {
            let engine = match engine {
                _ if in_pod => "k8s",
                "docker" => "docker",
                "libpod" | "libpod-conmon" => "podman",
                "crio" => "crio",
                "cri-containerd" | "nerdctl" => "containerd",
                _ => "container",
            };
            return Some(format!("{engine}:{id}"));
        }
        if let Some(id) = short_id(part) {
            let engine = match previous {
                _ if in_pod => "k8s",
                "docker" => "docker",
                _ => "container",
            };
            return Some(format!("{engine}:{id}"));
        }
        if let Some(name) = scope.strip_prefix("machine-")
            && part != scope
        {
            return Some(format!("machine:{}", unescape(name)));
        }
        if let Some(name) = part
            .strip_prefix("systemd-nspawn@")
            .and_then(|name| name.strip_suffix(".service"))
        {
            return Some(format!("machine:{}", unescape(name)));
        }
        if let Some(name) = part.strip_prefix("lxc.payload.") {
            return Some(format!("lxc:{name}"));
        }
        if previous == "lxc" && !part.is_empty() {
            return Some(format!("lxc:{part}"));
        }
        previous = part;
    }
    None
}

/// The beginning of a container id, which is 64 hexadecimal digits.
fn short_id(id: &str) -> Option<&str> {
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| &id[..SHORT_ID])
}

/// systemd writes `-` in a name as `\x2d`.
fn unescape(name: &str) -> String {
    name.replace("\\x2d", "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_of_both_layouts_are_found() {
        assert_eq!(
            path(b"0::/user.slice/session-1.scope\n"),
            "/user.slice/session-1.scope"
        );
        assert_eq!(
            path(b"8:pids:/x\n1:name=systemd:/system.slice/a.service\n0::/\n"),
            "/system.slice/a.service"
        );
        assert_eq!(path(b"0::/\n"), "/");
        assert_eq!(path(b""), "/");
        assert_eq!(path(b"0::/a:b\n"), "/a:b");
    }

    #[test]
    fn units_and_containers_are_named() {
        let id = "0123456789ab".to_owned() + &"c".repeat(52);
        for (path, expected) in [
            ("/".to_owned(), None),
            ("/user.slice".to_owned(), None),
            (
                "/system.slice/cron.service".to_owned(),
                Some("cron.service"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-code-7.scope"
                    .to_owned(),
                Some("app-code-7.scope"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service/sub"
                    .to_owned(),
                Some("foo.service"),
            ),
            (
                format!("/system.slice/docker-{id}.scope"),
                Some("docker:0123456789ab"),
            ),
            (format!("/docker/{id}"), Some("docker:0123456789ab")),
            (
                format!("/docker/{id}/system.slice/x.service"),
                Some("docker:0123456789ab"),
            ),
            (
                format!("/user.slice/user@1000.service/user.slice/libpod-{id}.scope/container"),
                Some("podman:0123456789ab"),
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-{id}.scope"
                ),
                Some("k8s:0123456789ab"),
            ),
            (
                format!("/kubepods/besteffort/pod1/{id}"),
                Some("k8s:0123456789ab"),
            ),
            (
                format!("/system.slice/nerdctl-{id}.scope"),
                Some("containerd:0123456789ab"),
            ),
            (
                "/machine.slice/machine-deb\\x2d12.scope".to_owned(),
                Some("machine:deb-12"),
            ),
            (
                "/machine.slice/systemd-nspawn@deb.service/payload".to_owned(),
                Some("machine:deb"),
            ),
            ("/lxc.payload.box/init.scope".to_owned(), Some("lxc:box")),
            ("/lxc/box".to_owned(), Some("lxc:box")),
            (format!("/docker/{}", &id[1..]), None),
        ] {
            assert_eq!(unit(&path).as_deref(), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unit(&path(&bytes));
        }
    }
}
