# The life of the service under systemd, which runs this after its start, on a machine with the package /mcmw-test/mcmw.deb and nothing else in the network.
PS4="+ \t "
set -eux
pid() { systemctl show --property MainPID --value mcmw; }
within() { SECONDS=0; until "$@"; do [ $SECONDS -lt 30 ] || return 1; sleep 0.1; done; } 2>/dev/null
logged() { journalctl --sync; journalctl --unit mcmw | grep "$1"; }

memcached -u nobody -l 127.0.0.1 -p 11211 -d
dpkg --no-triggers --install /mcmw-test/mcmw.deb
systemd-analyze verify mcmw.service
systemd-analyze security --no-pager --threshold=15 mcmw.service
! systemctl is-active mcmw

echo 'stats-file: /var/log/mcmw/stats.jsonl' >>/etc/mcmw/mcmw.yaml
systemctl enable --now mcmw
mcmw ping 127.0.0.1:11311 --for 30s
systemctl is-active mcmw
systemctl status --no-pager mcmw
test "$(stat -c %U /proc/$(pid))" = mcmw
grep -q '"start"' /var/log/mcmw/stats.jsonl

# A reload keeps the process. A wrong configuration is refused and changes nothing.
was=$(pid)
sed -i 's/^servers: .*/servers: [here=127.0.0.1:11211]/' /etc/mcmw/mcmw.yaml
systemctl reload mcmw
within logged '"here"'
echo 'servers: [' >/etc/mcmw/wrong && cp /etc/mcmw/mcmw.yaml /etc/mcmw/right && cp /etc/mcmw/wrong /etc/mcmw/mcmw.yaml
! systemctl reload mcmw
cp /etc/mcmw/right /etc/mcmw/mcmw.yaml
mcmw ping 127.0.0.1:11311 --for 30s
test "$(pid)" = "$was"

# It is started again after a crash and by an upgrade, not with a wrong configuration.
kill -KILL "$was"
mcmw ping 127.0.0.1:11311 --for 30s
test "$(pid)" != "$was"
was=$(pid)
dpkg --no-triggers --force-confold --install /mcmw-test/mcmw.deb
mcmw ping 127.0.0.1:11311 --for 30s
test "$(pid)" != "$was"
cp /etc/mcmw/wrong /etc/mcmw/mcmw.yaml
systemctl restart mcmw || true
within systemctl is-failed mcmw
test "$(systemctl show --property ExecMainStatus --value mcmw)" = 2
test "$(systemctl show --property NRestarts --value mcmw)" = 0
cp /etc/mcmw/right /etc/mcmw/mcmw.yaml

systemctl start mcmw
mcmw ping 127.0.0.1:11311 --for 30s
systemctl stop mcmw
test "$(systemctl show --property Result --value mcmw)" = success
systemctl start mcmw
dpkg --no-triggers --remove mcmw
! systemctl is-active mcmw
! systemctl cat mcmw
