//! Architectures of the binaries, and the tools that each needs.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::Result;

use crate::program;

/// Architecture by its name in image manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    /// The architecture x86-64, called x86_64 by Rust.
    Amd64,
    /// The architecture 64-bit ARM, called aarch64 by Rust.
    Arm64,
}

impl Architecture {
    /// Architectures of a release.
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the target of the Rust compiler: static, with musl.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns the number of the architecture in ELF files.
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// Returns the static emulator that runs programs of this architecture on others.
    pub(crate) fn emulator(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-x86_64-static",
            Self::Arm64 => "qemu-aarch64-static",
        }
    }

    /// Returns `true` if this machine has the architecture.
    pub(crate) fn is_own(self) -> bool {
        std::env::consts::ARCH == self.target().split('-').next().unwrap_or_default()
    }

    /// Returns the C compiler for the architecture, which also links: of this machine, or Debian's cross compiler.
    fn compiler(self) -> &'static str {
        match self {
            own if own.is_own() => "gcc",
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// Returns the Debian package of the compiler.
    fn package(self) -> &'static str {
        match self {
            own if own.is_own() => "gcc",
            Self::Amd64 => "gcc-x86-64-linux-gnu",
            Self::Arm64 => "gcc-aarch64-linux-gnu",
        }
    }

    /// Returns the variables of a build, as far as the caller has not set them.
    pub(crate) fn variables(self) -> Vec<(String, String)> {
        let target = self.target().replace('-', "_");
        let mut variables = vec![(format!("CC_{target}"), self.compiler().to_owned())];
        if !self.is_own() {
            variables.push((
                format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()),
                self.compiler().to_owned(),
            ));
        }
        variables.retain(|(name, _)| std::env::var_os(name).is_none());
        variables
    }

    /// Returns what is missing on this machine for a build, with the command that installs it.
    pub(crate) fn missing(self, root: &Path) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let compiler = self.compiler();
        if self.variables().iter().any(|(_, value)| value == compiler)
            && program::find(compiler).is_none()
        {
            missing.push(format!("{compiler}: apt-get install {}", self.package()));
        }
        let target = self.target();
        let sysroot = program::output(
            Command::new("rustc")
                .current_dir(root)
                .args(["--print", "sysroot"]),
        )?;
        if !Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(target)
            .join("lib")
            .exists()
        {
            missing.push(format!(
                "the Rust target {target}: rustup target add {target}"
            ));
        }
        Ok(missing)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL
            .into_iter()
            .find(|architecture| architecture.to_string() == text);
        known.ok_or_else(|| format!("unknown architecture {text:?}; accepted are amd64 and arm64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architecture_is_read_by_its_name_in_images() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.to_string().parse(), Ok(architecture));
        }
        let error = "x86_64".parse::<Architecture>().unwrap_err();
        assert_eq!(
            error,
            "unknown architecture \"x86_64\"; accepted are amd64 and arm64"
        );
    }
}
