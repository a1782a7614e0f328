"""What deploy/ offers, each by the tool that can judge it."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

import jsonschema
import pytest

from conftest import BUILD, PROFILES, ROOT, SLOW
from test_security import certificate

DEPLOY = ROOT / "deploy"


def tool(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        pytest.skip(f"{name} is not here; deploy/packages test installs it on Debian and Ubuntu")
    return found


def run(*words, timeout=60, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout * SLOW, **more)
    return done.returncode, done.stdout + done.stderr


# ---- systemd ----

def installed_units(folder):
    """The units with the programs of this build in place of installed ones."""
    for name in ("rematd.service", "rematd.socket"):
        text = (DEPLOY / "systemd" / name).read_text()
        (folder / name).write_text(text.replace("/usr/bin/rematd", str(BUILD / "server" / "rematd")))
    return [folder / "rematd.service", folder / "rematd.socket"]


def test_units(tmp_path):
    code, said = run(tool("systemd-analyze"), "verify", "--man=no", *installed_units(tmp_path))
    assert code == 0 and "rematd" not in said, said
    (tmp_path / "rematd.service").write_text((tmp_path / "rematd.service").read_text() + "\n[Service]\nPrivateTmq=1\n")
    assert "PrivateTmq" in run(tool("systemd-analyze"), "verify", "--man=no", tmp_path / "rematd.service")[1]


def test_unit_needs_only_what_is_there():
    """Programs of the package or of every Debian, and the socket before the service."""
    text = (DEPLOY / "systemd" / "rematd.service").read_text()
    assert set(re.findall(r"^Exec\w+=[-+!@:]*(\S+)", text, re.M)) == {"/usr/bin/rematd", "/bin/sh"}
    assert re.search(r"^Requires=rematd.socket$", text, re.M) and re.search(r"^After=.*\brematd.socket", text, re.M)


def test_unit_is_confined():
    """systemd's own measure, 0 (safe) to 10; what is left of it is the network and threads."""
    code, said = run(tool("systemd-analyze"), "security", "--offline=true", "--threshold=15",
                     DEPLOY / "systemd" / "rematd.service")
    assert code == 0, said


def test_sample_configuration_is_the_defaults(tmp_path):
    """Every name in it is a setting, also those that are commented out."""
    text = (DEPLOY / "systemd" / "rematd.conf").read_text()
    names = re.findall(r"^# ([a-z-]+) = ", text, re.M)
    assert len(names) >= 4
    given = run(BUILD / "server" / "rematd", "--help")[1]
    assert all(f"--{name} " in given for name in names)
    code, said = run(BUILD / "server" / "rematd", "--check-config", "--config", DEPLOY / "systemd" / "rematd.conf")
    assert code == 0, said


# ---- nginx ----

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def https(port, trust, path, headers=()):
    import http.client
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30 * SLOW,
                                             context=ssl.create_default_context(cafile=str(trust)))
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def test_nginx(make_service, tmp_path):
    """nginx -t, and a run: an answer comes from the cache, even while rematd is away, to its own token only."""
    nginx = tool("nginx")
    cert, key = certificate(tmp_path, "front")
    tokens = tmp_path / "tokens.json"
    code, token = run(BUILD / "server" / "rematd", "token", "add", "one", "read,solve", "--tokens", tokens)
    assert code == 0, token
    service = make_service("--tokens", str(tokens))
    bearer = {"Authorization": f"Bearer {token.strip()}"}
    port, text = free_port(), (DEPLOY / "nginx" / "remat.conf").read_text()
    for old, new in (("127.0.0.1:7070", f"127.0.0.1:{service.port}"), ("listen 443", f"listen 127.0.0.1:{port}"),
                     ("/etc/remat/cert.pem", cert), ("/etc/remat/key.pem", key),
                     ("/var/cache/nginx/remat", tmp_path / "cache")):
        assert old in text
        text = text.replace(old, str(new))
    (tmp_path / "remat.conf").write_text(text)
    temporary = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    main = tmp_path / "nginx.conf"
    main.write_text(f"{user}pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\ndaemon off;\nevents {{}}\n"
                    f"http {{ access_log off;\n{temporary}include {tmp_path}/remat.conf; }}\n")
    code, said = run(nginx, "-t", "-c", main, "-p", tmp_path)
    assert code == 0, said
    front = subprocess.Popen([nginx, "-c", str(main), "-p", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30 * SLOW
        while True:
            try:
                assert https(port, cert, "/readyz")[0] == 200
                break
            except ConnectionError:
                assert time.monotonic() < deadline and front.poll() is None
                time.sleep(0.05)
        posted = service.post("/v1/profiles", json.loads((PROFILES / "vgg19.chain.json").read_text()), headers=bearer)
        path = f"/v1/profiles/{posted.json['profile_id']}"
        first, second = (https(port, cert, path, bearer.items()) for _ in range(2))
        assert (first[0], first[1]["X-Cache"], second[0], second[1]["X-Cache"]) == (200, "MISS", 200, "HIT")
        assert first[2] == second[2]
        assert https(port, cert, path)[0] == 401
        assert https(port, cert, path, [("Authorization", "Bearer remat_" + "0" * 64)])[0] == 401
        service.stop()
        assert https(port, cert, path, bearer.items())[2] == first[2]
        assert https(port, cert, "/readyz")[0] == 502
    finally:
        front.terminate()
        front.wait(30)


# ---- Prometheus and Grafana ----

def test_rules():
    promtool, folder = tool("promtool"), DEPLOY / "prometheus"
    for words in (("check", "config", "prometheus.yaml"), ("check", "rules", "rules.yaml"),
                  ("test", "rules", "rules_test.yaml")):
        code, said = run(promtool, *words, cwd=folder)
        assert code == 0, said


def test_every_alert_is_tested():
    alerts = set(re.findall(r"- alert: (\w+)", (DEPLOY / "prometheus" / "rules.yaml").read_text()))
    tested = set(re.findall(r"alertname: (\w+)", (DEPLOY / "prometheus" / "rules_test.yaml").read_text()))
    assert alerts and alerts == tested


def test_every_metric_is_there(rematd):
    """What the dashboard and the rules ask for is what a daemon tells, names and labels."""
    summary = rematd.push("vgg19.chain")
    asked = rematd.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "80%"})
    rematd.get(asked.headers["Location"])
    told = rematd.get("/metrics").body.decode()
    names = set(re.findall(r"^([a-z0-9_]+)[ {]", told, re.M))
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    asks = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asks += [variable["query"] for variable in board["templating"]["list"]]
    assert len(board["panels"]) >= 8 and len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    text = "\n".join(asks) + "\n" + re.sub("remat:[a-z0-9_:]+", "", (DEPLOY / "prometheus" / "rules.yaml").read_text())
    wanted = set(re.findall(r"\bremat_[a-z0-9_]+", text))
    assert wanted and wanted <= names, wanted - names
    assert 'route="/v1/schedules/{id}"' in told and 'route="/v1/schedules/{id}"' in text
    for label in ("status", "route", "le", "cache", "solver"):
        assert f'{label}="' in told


# ---- Kubernetes ----

KINDS = {"Service": "V1Service", "StatefulSet": "V1StatefulSet", "Deployment": "V1Deployment",
         "HorizontalPodAutoscaler": "V1HorizontalPodAutoscaler", "PodDisruptionBudget": "V1PodDisruptionBudget",
         "NetworkPolicy": "V1NetworkPolicy"}


def manifests(name):
    yaml = pytest.importorskip("yaml", reason="deploy/packages test installs python3-yaml")
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def misfit(api, document):
    """What the models of the Kubernetes API, generated from its OpenAPI document, make of a manifest: an unknown field
    is lost on the way through them, a missing one raises, a wrong type does either."""
    class Answer:
        data = json.dumps(document)

    kept = api.sanitize_for_serialization(api.deserialize(Answer(), KINDS[document["kind"]]))
    return None if kept == document else f"{kept}\n is not\n{document}"


def rendered(name, release="remat", **changes):
    """The documents of a template of the chart: by helm where it is, and by the little of its language that the templates
    use, a condition around a whole file and values with quote or toJson behind."""
    chart = DEPLOY / "helm"
    yaml = pytest.importorskip("yaml", reason="deploy/packages test installs python3-yaml")
    values = {**yaml.safe_load((chart / "values.yaml").read_text()), **changes}
    jsonschema.validate(values, json.loads((chart / "values.schema.json").read_text()))
    begin, text = re.fullmatch(r"{{- if (.*?) }}\n(.*){{- end }}\n", (chart / "templates" / name).read_text(), re.S).groups()
    compared = re.fullmatch(r'eq .Values.store "(\w+)"', begin)
    assert compared or begin == ".Values.networkPolicy"

    def value(found):
        at = {"Values": values, "Release": {"Name": release}}
        for part in found[1].split("."):
            at = at[part]
        return json.dumps(str(at)) if found[2] == "quote" else json.dumps(at) if found[2] == "toJson" else str(at)

    text = re.sub(r"{{ \.([\w.]+)(?: \| (quote|toJson))? }}", value, text)
    assert "{{" not in text
    documents = list(yaml.safe_load_all(text)) if (values["store"] == compared[1] if compared else values["networkPolicy"]) else []
    if shutil.which("helm"):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(changes, file)
            file.flush()
            code, said = run("helm", "template", release, chart, "--values", file.name)
            assert code == 0, said
        by_helm = [one for one in yaml.safe_load_all(said) if one]
        assert all(one in by_helm for one in documents)
    return documents


def test_the_chart_is_the_manifests():
    yaml = pytest.importorskip("yaml", reason="deploy/packages test installs python3-yaml")
    assert rendered("sqlite.yaml") == manifests("sqlite.yaml") and rendered("postgresql.yaml") == []
    assert rendered("postgresql.yaml", store="postgresql") == manifests("postgresql.yaml")
    assert rendered("network.yaml") == manifests("network.yaml") and rendered("network.yaml", networkPolicy=False) == []
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
    chart = yaml.safe_load((DEPLOY / "helm" / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == version
    other = json.dumps(rendered("postgresql.yaml", "another", store="postgresql", image="r:1", workers=7, memoryLimit="3GiB", replicas={
        "least": 4, "most": 5}, secrets={"tokens": "t", "store": "s"}, resources={"requests": {"cpu": "9"}, "limits": {}}))
    for there in ('"image": "r:1"', '"value": "7"', '"value": "3GiB"', '"minReplicas": 4', '"maxReplicas": 5', '"secretName": "t"',
                  '"name": "s"', '"cpu": "9"', '"app.kubernetes.io/name": "another"'):
        assert there in other, there
    assert '"remat"' not in other
    for wrong in ({"store": "mysql"}, {"workers": 0}, {"imagee": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            rendered("sqlite.yaml", **wrong)


@pytest.mark.parametrize("name", ["sqlite.yaml", "postgresql.yaml", "network.yaml"])
def test_manifests_are_of_their_schema(name):
    client = pytest.importorskip("kubernetes.client", reason="deploy/packages test installs python3-kubernetes")
    api = client.ApiClient()
    for document in manifests(name):
        assert misfit(api, document) is None
        document["spec"]["replicaz"] = 1
        assert misfit(api, document)


@pytest.mark.parametrize("name,kind", [("sqlite.yaml", "StatefulSet"), ("postgresql.yaml", "Deployment")])
def test_manifests_fit_each_other_and_rematd(name, kind):
    found = {document["kind"]: document for document in manifests(name)}
    spec = found[kind]["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    (one,) = pod["containers"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == one["ports"][0]["name"] == "http"
    settings = {entry["name"]: entry.get("value") for entry in one["env"]}
    assert settings["REMATD_LISTEN"].endswith(f":{one['ports'][0]['containerPort']}")
    help_text = run(BUILD / "server" / "rematd", "--help")[1]
    for variable in settings:
        if variable.startswith("REMATD_"):
            assert f"--{variable[7:].lower().replace('_', '-')} " in help_text
    assert {one[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")} == {"/readyz"}
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    mounts = {mount["name"] for mount in one["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    assert mounts == {volume["name"] for volume in pod["volumes"]} | claims
    if kind == "Deployment":
        target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == (kind, found[kind]["metadata"]["name"]) and "replicas" not in spec
        assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
        secrets = [entry["valueFrom"]["secretKeyRef"] for entry in one["env"] if "valueFrom" in entry]
        assert {"name": "remat-store", "key": "url"} in secrets
    else:
        assert spec["replicas"] == 1 and settings["REMATD_STORE"].startswith("/var/lib/remat/")
    (network,) = manifests("network.yaml")
    assert network["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


# ---- the container file and the package ----

def test_container_file():
    """No container builder is asked for here: its paths, user, port and check are compared with the rest."""
    text = (DEPLOY / "container" / "Containerfile").read_text()
    assert re.findall(r"^FROM .* AS build$", text, re.M) and text.count("\nFROM ") == 2 - text.startswith("FROM")
    user = re.search(r"^USER (\d+):", text, re.M)[1]
    assert f"--uid {user} " in text and f"runAsUser: {user}" in (DEPLOY / "kubernetes" / "sqlite.yaml").read_text()
    assert "HEALTHCHECK" in text and "/readyz" in text and "EXPOSE 7070" in text
    code, linked = run("ldd", BUILD / "server" / "rematd")
    named = set(re.findall(r"lib(jansson|sqlite3|pq|uv|zstd|nettle|gnutls)", text))
    for library in re.findall(r"lib(jansson|sqlite3|pq|uv|zstd|nettle|gnutls)\.so", linked):
        assert library in named, f"rematd needs lib{library}"


def test_bill_of_materials(tmp_path):
    """The image's, made of this machine: what was built in, and every package that dpkg has installed. tests/long has the image."""
    built_in = tmp_path / "built-in"
    built_in.write_text("npm @a/b 1.0.0 (MIT OR CC0-1.0)\ndeb made-dev 1:2+3~4 all\n")
    done = subprocess.run([DEPLOY / "container" / "sbom", built_in], capture_output=True, text=True, timeout=60 * SLOW,
                          env=dict(os.environ, PATH=f"{BUILD / 'server'}:{os.environ['PATH']}"))
    assert done.returncode == 0 and not done.stderr, done.stderr
    told = json.loads(done.stdout)
    assert (told["bomFormat"], told["specVersion"], told["metadata"]["component"]["name"]) == ("CycloneDX", "1.5", "remat")
    remat, npm, deb, *packages = told["components"]
    assert remat["version"] == re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    assert npm == {"type": "library", "name": "@a/b", "version": "1.0.0", "purl": "pkg:npm/%40a/b@1.0.0", "licenses": [{"expression": "(MIT OR CC0-1.0)"}]}
    assert deb["purl"].startswith("pkg:deb/") and "/made-dev@1%3A2%2B3~4?arch=all&distro=" in deb["purl"]
    installed = run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n")[1]
    assert [(one["name"], one["version"]) for one in packages] == re.findall(r"^ii (\S+) (\S+)$", installed, re.M)
    page = BUILD / "clients/web/page_packages.txt"  # of a build with the page
    listed = page.read_text().splitlines() if page.exists() else []
    locked = json.loads((ROOT / "clients/web/package-lock.json").read_text())["packages"]
    assert all([locked[f"node_modules/{name}"]["version"], locked[f"node_modules/{name}"]["license"]] == rest
               for name, *rest in (line.split(" ", 2) for line in listed)), listed


def test_package(tmp_path):
    if SLOW > 1 or not os.environ.get("REMAT_LONG"):
        pytest.skip("the package is built once, by the plain run of tests/run --long")
    tool("dpkg-buildpackage"), tool("dh")
    code, said = run(DEPLOY / "package", tmp_path, timeout=900)
    assert code == 0, said
    (package,) = tmp_path.glob("remat_*.deb")
    listed = run("dpkg", "-c", package)[1]
    for path in ("/usr/bin/rematd", "/usr/bin/remat", "/usr/share/man/man1/remat.1.gz",
                 "/usr/share/man/man1/rematd.1.gz", "/etc/remat/rematd.conf", "/usr/share/bash-completion/completions/remat", "/usr/lib/sysusers.d/remat.conf",
                 "system/rematd.service", "system/rematd.socket"):
        assert path + "\n" in listed, path
    needs = run("dpkg", "-f", package, "Depends")[1]
    assert "libmicrohttpd12" in needs and "libuv1" in needs and "libsqlite3-0" in needs
    scripts = tmp_path / "scripts"
    assert run("dpkg", "-e", package, scripts)[0] == 0
    assert "remat.conf" in (scripts / "postinst").read_text() and "rematd.socket" in (scripts / "postinst").read_text()
    assert run("dpkg", "-x", package, tmp_path / "root")[0] == 0
    assert run(tmp_path / "root" / "usr" / "bin" / "rematd", "--version")[0] == 0
    code, said = run(tool("lintian"), "--allow-root", "--display-info", "--pedantic",
                     "--suppress-tags", "spelling-error-in-binary", package)  # it reads machine code, too: "Aks"
    assert (code, said) == (0, "")  # what is overridden says why in remat.lintian-overrides
    assert "remat/purge-data" in (scripts / "templates").read_text() and "purge-data" in (scripts / "postrm").read_text()


@pytest.mark.parametrize("action,answer,left", [("remove", "true", True), ("purge", "false", True), ("purge", "true", False),
                                                ("purge", None, False)])
def test_purging_asks_before_it_removes_the_store(tmp_path, action, answer, left):
    """None: there is no debconf to ask by. The answer by default is the template's."""
    state, debconf = tmp_path / "state", tmp_path / "confmodule"
    state.mkdir()
    (state / "store.db").write_text("all")
    if answer:
        debconf.write_text(f'db_input() {{ asked="$2"; }}\ndb_go() {{ :; }}\ndb_get() {{ [ "$asked" = "$1" ] && RET={answer}; }}\n')
    text = (DEPLOY / "debian" / "remat.postrm").read_text()
    assert "/usr/share/debconf/confmodule" in text and "Default: true" in (DEPLOY / "debian" / "remat.templates").read_text()
    script = text.replace("/var/lib/remat", str(state)).replace("/usr/share/debconf/confmodule", str(debconf))
    assert run("sh", "-c", script, "postrm", action)[0] == 0
    assert state.exists() == left
