#!/bin/sh
# Builds what is released: the program, a .deb, a .rpm, an SBOM and their checksums. The same commit and the same
# tools give the same bytes.
#   build.sh [--binary FILE] [--version VERSION] [--out DIR]
# --binary packs a program that exists, instead of building one that runs on glibc 2.28.
set -eu
release=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$release/../.." && pwd)
binary=
out=$top/target/packages
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top/Cargo.toml" | head -1)
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$(cd "$(dirname "$2")" && pwd)/$(basename "$2"); shift 2 ;;
    --version) version=$2; shift 2 ;;
    --out) mkdir -p "$2"; out=$(cd "$2" && pwd); shift 2 ;;
    *) echo "build.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
glibc=2.28
target=x86_64-unknown-linux-gnu

# The time of the commit stands for all times, and no path of this machine is in what is built.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git -C "$top" log -1 --format=%ct 2>/dev/null || date -r "$top/Cargo.toml" +%s)
fi
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "$binary" ]; then
  tools=$top/target/release-tools
  [ -x "$tools/bin/cargo-zigbuild" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet cargo-zigbuild==0.24.0 ziglang==0.17.1
  }
  export CARGO_TARGET_DIR="$top/target/release-build"
  export RUSTFLAGS="--remap-path-prefix=$top=/poolctl --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
  # What everyday commands run lies together, so that each reads fewer pages of code. The linker takes only
  # one script, so the two are joined.
  cat "$top/tests/perf/layout.ld" "$release/no_unwinding.ld" >"$work/poolctl.ld"
  "$tools/bin/python" -m ziglang build-obj -O ReleaseSmall -target "x86_64-linux-gnu.$glibc" -fno-compiler-rt \
    "-femit-bin=$work/pow.o" "$release/pow.zig"
  # Cargo does not notice when the content of these files changes.
  for file in poolctl.ld pow.o; do
    cmp -s "$work/$file" "$tools/$file" || rm -rf "${CARGO_TARGET_DIR:?}/$target/dist"
    mv "$work/$file" "$tools/$file"
  done
  RUSTFLAGS="$RUSTFLAGS -Clink-arg=-Wl,-T,$tools/poolctl.ld -Clink-arg=-Wl,--no-eh-frame-hdr"
  RUSTFLAGS="$RUSTFLAGS -Clink-arg=$tools/pow.o"
  # The program is loaded at the same address each time, as the programs of Go are, so nothing in it
  # is relocated at its start. That saves a sixteenth of the time of a short command, and 380 kB.
  RUSTFLAGS="$RUSTFLAGS -Crelocation-model=static"
  (cd "$top" && PATH="$tools/bin:$PATH" cargo zigbuild --profile dist --locked --bin poolctl --target "$target.$glibc")
  binary=$work/poolctl
  strip -o "$binary" "$CARGO_TARGET_DIR/$target/dist/poolctl"
  newest=$(objdump -T "$binary" | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -1)
  : "${newest:?build.sh: objdump, which is in binutils, finds no version of glibc in the program}"
  if [ "$(printf '%s\n%s\n' "$newest" "$glibc" | sort -V | tail -1)" != "$glibc" ]; then
    echo "build.sh: the program needs glibc $newest, not $glibc" >&2
    exit 1
  fi
  if objdump -p "$binary" | grep -q 'NEEDED.*libm'; then
    echo "build.sh: the program loads libm, because it calls a function that pow.zig does not have" >&2
    exit 1
  fi
fi

mkdir -p "$out"

# What both packages have.
tree=$work/tree
share=$tree/usr/share
install -D -m 755 "$binary" "$tree/usr/bin/poolctl"
"$binary" __man "$work/man"
for page in "$work"/man/*.1; do
  install -D -m 644 "$page" "$share/man/man1/$(basename "$page")"
done
gzip -9n "$share"/man/man1/*.1
install -D -m 644 "$top/completions/poolctl.bash" "$share/bash-completion/completions/poolctl"
install -D -m 644 "$top/completions/poolctl.fish" "$share/fish/vendor_completions.d/poolctl.fish"
for unit in poolctl.service poolctl.timer poolctl-backup.service poolctl-backup.timer; do
  install -d "$tree/usr/lib/systemd/system"
  sed 's#/usr/local/bin/poolctl#/usr/bin/poolctl#' "$top/examples/systemd/$unit" >"$tree/usr/lib/systemd/system/$unit"
done
install -D -m 644 "$release/sysusers.conf" "$tree/usr/lib/sysusers.d/poolctl.conf"
install -D -m 644 "$release/tmpfiles.conf" "$tree/usr/lib/tmpfiles.d/poolctl.conf"
# Who may use sudo is for an administrator to say: the line is there and does nothing yet.
install -d "$tree/etc/sudoers.d"
sed -e 's#/usr/local/bin/poolctl#/usr/bin/poolctl#' -e 's/^%lab/# %lab/' "$top/examples/access/sudoers" >"$tree/etc/sudoers.d/poolctl"
chmod 440 "$tree/etc/sudoers.d/poolctl"
for file in README.md LICENSE docs examples; do
  install -d "$share/doc/poolctl"
  cp -R "$top/$file" "$share/doc/poolctl/"
done
# Their lines name the program where the package has it. The folder of this script is about building.
grep -rlZ --exclude-dir=release /usr/local/bin/poolctl "$share/doc" | xargs -0 sed -i 's#/usr/local/bin/poolctl#/usr/bin/poolctl#g'
find "$share/doc" -type d -exec chmod 755 {} + -o -type f -exec chmod u=rw,go=r {} +

# Debian has another folder for zsh, and wants the license where it looks for it.
deb=$work/deb
cp -a "$tree" "$deb"
install -D -m 644 "$top/completions/_poolctl" "$deb/usr/share/zsh/vendor-completions/_poolctl"
mv "$deb/usr/share/doc/poolctl/LICENSE" "$deb/usr/share/doc/poolctl/copyright"
install -d "$deb/DEBIAN"
cat >"$deb/DEBIAN/control" <<CONTROL
Package: poolctl
Version: $version
Architecture: amd64
Maintainer: poolctl maintainers <poolctl@example.com>
Depends: libc6 (>= $glibc), systemd
Section: admin
Priority: optional
Installed-Size: $(du -sk --apparent-size "$tree" | cut -f1)
Description: pools of ready OpenShift clusters for on-prem labs
 poolctl keeps pools of ready OpenShift clusters. It needs no hub cluster and no
 daemon: it is one binary, one SQLite file and a timer.
CONTROL
echo /etc/sudoers.d/poolctl >"$deb/DEBIAN/conffiles"
install -m 755 "$release/postinst" "$release/prerm" "$deb/DEBIAN/"
find "$deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zgzip -z6 --build "$deb" "$out/poolctl_${version}_amd64.deb" >/dev/null

if command -v rpmbuild >/dev/null; then
  rpm=$work/rpm
  cp -a "$tree" "$rpm"
  install -D -m 644 "$top/completions/_poolctl" "$rpm/usr/share/zsh/site-functions/_poolctl"
  find "$rpm" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  rpmbuild -bb --quiet --target x86_64 "$release/poolctl.spec" \
    --define "_topdir $work/rpmbuild" --define "_rpmdir $work" --define "staged_tree $rpm" \
    --define "poolctl_version $version" --define "_buildhost poolctl" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    --define "_build_id_links none" --define "_binary_payload w6.gzdio" --define "_source_payload w6.gzdio"
  mv "$work/x86_64/poolctl-$version-1.x86_64.rpm" "$out/"
else
  echo "build.sh: there is no rpmbuild, so no .rpm was made" >&2
fi

install -m 755 "$binary" "$out/poolctl"
python3 "$release/sbom.py" "$top/Cargo.lock" >"$out/poolctl-$version.cdx.json"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS)
ls -l "$out"
