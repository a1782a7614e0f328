"""What a browser gets at /: the page, or in a build without it, words that say so. What it does is in tests/browser."""

import gzip
import re

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def in_build(rematd):
    return b"not in this build" not in rematd.get("/").body


def test_root_for_a_browser_and_for_others(rematd):
    text = rematd.get("/", headers={"Accept": "application/json"})
    assert text.status == 200 and text.headers["Content-Type"].startswith("text/plain")
    assert b"/openapi.json" in text.body and "Content-Security-Policy" not in text.headers
    page = rematd.get("/", headers=BROWSER)
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert page.headers["Cache-Control"] == "no-store" and page.headers["Referrer-Policy"] == "no-referrer"
    assert (b"not in this build" in page.body) != in_build(rematd)
    assert b"/openapi.json" in page.body
    head = rematd.call("HEAD", "/", headers=BROWSER)
    assert head.status == 200 and head.headers["Content-Length"] == str(len(page.body)) and not head.body


def test_files_of_the_page(rematd):
    page = rematd.get("/", headers=BROWSER).body.decode()
    names = re.findall(r'(?:src|href)="(/page/[^"]+)"', page)
    assert len(names) == (2 if in_build(rematd) else 0)
    for name in names:
        plain = rematd.get(name)
        packed = rematd.get(name, headers={"Accept-Encoding": "gzip"})
        assert gzip.decompress(packed.body) == plain.body and packed.headers["Vary"] == "Accept-Encoding"
        assert "immutable" in plain.headers["Cache-Control"]
        assert rematd.get(name, headers={"If-None-Match": plain.headers["ETag"]}).status == 304
    for path in ("/page/none.js", "/page/", "/page/..", "/page/a/b.js", "/page/%ff.js", "/page/" + "a" * 64):
        assert rematd.get(path).status == 404, path


def test_docs(rematd):
    page = rematd.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html") and b"/openapi.json" in page.body
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert (b"not in this build" in page.body) != in_build(rematd)
    names = re.findall(rb'(?:src|href)="(/page/[^"]+)"', page.body)
    assert len(names) == (2 if in_build(rematd) else 0)
    for name in names:
        packed = rematd.get(name.decode(), headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip" and len(packed.body) < 600000
        assert "immutable" in packed.headers["Cache-Control"]


def test_the_page_is_open_where_the_service_is_not(make_service, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"tokens": []}')
    service = make_service("--tokens", str(tokens))
    page = service.get("/", headers=BROWSER)
    assert page.status == 200
    for name in re.findall(rb'(?:src|href)="(/page/[^"]+)"', page.body):
        assert service.get(name.decode()).status == 200
    assert service.get("/v1/profiles").status == 401


def test_the_version_is_among_the_metrics(rematd):
    assert re.search(rb'^remat_build_info\{version="\d+\.\d+\.\d+"\} 1$', rematd.get("/metrics").body, re.M)
