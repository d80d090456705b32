# SPDX-License-Identifier: MIT
"""The page of examples/http_server as a person sees it, in Chromium: for check_http.py."""
import functools
import os
import threading
import time

import http_images as images
from http_browser import PROGRAM, Browser
from http_checks import Skip, check, noise, picture, same, server, stops
from http_client import PATIENCE, Connection
from http_looks import wrong_looks

# The pixels of a picture of the page: its size, and one sample of each.
PIXELS = '''(() => {
    const img = document.querySelector('%s'), canvas = document.createElement('canvas');
    canvas.width = img.naturalWidth;
    canvas.height = img.naturalHeight;
    const context = canvas.getContext('2d');
    context.drawImage(img, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return [canvas.width, canvas.height, ...data.filter((_, i) => i %% 4 === 0)];
})()'''
# The number of the timeline's pixels with the colour of a kind.
COLOURED = '''(() => {
    const timeline = document.getElementById('timeline'), copy = document.createElement('canvas');
    copy.width = timeline.width;
    copy.height = timeline.height + 1;
    const context = copy.getContext('2d');
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--%s');
    context.fillRect(0, 0, 1, 1);
    context.drawImage(timeline, 0, 1);
    const { data } = context.getImageData(0, 0, copy.width, copy.height), want = data.slice(0, 3);
    let nr = 0;
    for (let i = 4 * copy.width; i < data.length; i += 4)
        nr += data[i] === want[0] && data[i + 1] === want[1] && data[i + 2] === want[2];
    return nr;
})()'''
SHOWN = "!document.getElementById('where').hidden"


def needs_a_browser():
    if not PROGRAM:
        raise Skip('there is no Chromium: make deps check-http installs it')


def page_of(running):
    return 'http://127.0.0.1:%d/' % running.port


def pixels_of(browser, selector):
    width, height, *samples = browser.run(PIXELS % selector)
    return width, height, bytes(samples)


def text_of(browser, name):
    return browser.run("document.getElementById('%s').textContent" % name)


def send_file(browser, content, name='a.png'):
    """Chooses a file with the content, and submits its form."""
    path = os.path.join(browser.profile.name, name)     # the browser may read it at any time
    with open(path, 'wb') as file:
        file.write(content)
    browser.choose_file('#file', path)
    browser.submit('edges')
    browser.until("!document.querySelector('#edges button:disabled')")


class Load:
    """Sends requests until its `with` ends."""

    def __init__(self, running, nr=2):
        self.over, self.running = threading.Event(), running
        self.threads = [threading.Thread(target=self.work) for _ in range(nr)]

    def work(self):
        connection = Connection(self.running.port)
        image = images.pnm(5, 300, 300, picture(300, 300))
        while not self.over.is_set():
            connection.ask('/wc', b'some words ' * 20000)
            connection.ask('/sobel', image)
        connection.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *exception):
        self.over.set()
        for thread in self.threads:
            thread.join()


def seen(*options, goes=True):
    """Makes a function of a server and a browser a check; the browser has its page if it goes."""
    def of(function):
        @functools.wraps(function)
        def with_both():
            needs_a_browser()
            with server(*options) as running:
                with Browser() as browser:
                    if goes:
                        browser.go(page_of(running))
                        browser.until(SHOWN)
                    function(running, browser)
                stops(running)
        return check(with_both)
    return of


@seen()
def a_picture_is_seen_beside_its_edges(_, browser):
    grey, rgb = picture(97, 61), noise(3 * 64 * 40)
    send_file(browser, images.png(97, 61, grey))
    assert text_of(browser, 'edges-said').startswith('97 × 61 pixels, in ')
    same(pixels_of(browser, '#before'), (97, 61, grey), 'picture')
    same(pixels_of(browser, '#after'), (97, 61, images.sobel(97, 61, grey)), 'edges')
    send_file(browser, images.pnm(6, 64, 40, rgb), 'a.ppm')
    same(pixels_of(browser, '#before'), (64, 40, rgb[::3]), 'red of a PPM')
    same(pixels_of(browser, '#after'),
         (64, 40, images.sobel(64, 40, images.grey_of_rgb(rgb))), 'edges of a PPM')
    browser.submit('words')
    browser.until("document.getElementById('words-said').textContent.startsWith("
                  "'0 lines, 8 words, 33 bytes, in ')")
    same(browser.complaints, [], 'complaints of the browser')


@seen('--max-body=8K')
def a_picture_too_large_for_the_server_is_sent_smaller(_, browser):
    send_file(browser, images.png(120, 120, noise(14400)))
    said = text_of(browser, 'edges-said')
    assert said.endswith('sent as 90 × 90 grey pixels'), said
    width, height, shown = pixels_of(browser, '#before')
    same(pixels_of(browser, '#after'), (90, 90, images.sobel(width, height, shown)),
         'edges')
    same(browser.complaints, [], 'complaints of the browser')


@seen('--max-body=8K')
def a_refusal_is_explained_in_words(_, browser):
    for content, says in (
            (b'no picture', 'The server refuses it: this is not a PNG, PGM or PPM'),
            (b'x' * 9000, 'It has 9,000 bytes; the server takes 8,192.')):
        send_file(browser, content)
        said = text_of(browser, 'edges-said')
        assert said.startswith(says), said
        assert browser.run("document.getElementById('pictures').hidden")
    send_file(browser, images.png(9, 9, picture(9, 9)))
    same(pixels_of(browser, '#before'), (9, 9, picture(9, 9)), 'picture')


@seen('--workers=2')
def figures_move_and_the_timeline_is_drawn(running, browser):
    assert '2 workers' in text_of(browser, 'about'), text_of(browser, 'about')
    same(text_of(browser, 'total'), '0 in all', 'requests')
    same([browser.run(COLOURED % kind) for kind in ('words', 'edges', 'png')], [0, 0, 0],
         'work before the load')
    with Load(running):
        for kind in ('words', 'edges', 'png'):
            browser.until(COLOURED % kind)
        for name in ('p50', 'p99', 'overlap'):
            browser.until("document.getElementById('%s').textContent !== '–'" % name)
        for _ in range(2):
            browser.until("document.getElementById('total').textContent !== '%s'" %
                          text_of(browser, 'total'))
        browser.until("/worked [1-9]/.test(document.getElementById('timeline')"
                      ".getAttribute('aria-label'))")
    browser.until("document.getElementById('flight').textContent === '0'")
    for kind in ('words', 'edges', 'png'):      # leaves the timeline after a while
        browser.until('!(%s)' % (COLOURED % kind))
    same(browser.complaints, [], 'complaints of the browser')


@seen()
def a_page_that_is_not_seen_does_not_ask(running, browser):
    browser.run("Object.defineProperty(document, 'hidden', { get: () => window.unseen });"
                'window.unseen = true')
    browser.until('!asking')
    asked = 'http_server_answers_total{route="/live",code="200"}'
    before = running.settled()[asked]
    time.sleep(1.5)     # three times the period of requests
    same(running.metrics()[asked], before, 'questions')
    browser.run('window.unseen = false')
    end = time.monotonic() + PATIENCE
    while running.metrics()[asked] == before:
        assert time.monotonic() < end, 'it does not ask again'


@check
def a_page_that_asks_does_not_keep_the_server():
    needs_a_browser()
    with server() as running:
        with Browser() as browser:
            browser.go(page_of(running))
            browser.until(SHOWN)
            stops(running)
            browser.until("document.getElementById('state').textContent.includes("
                          "'the server does not answer')")


@seen(goes=False)
def without_scripts_the_forms_work(running, browser):
    grey = picture(97, 61)
    browser.call('Emulation.setScriptExecutionDisabled', value=True)
    browser.go(page_of(running))
    assert 'need scripts' in browser.run("document.querySelector('noscript').innerText")
    assert not browser.run("document.getElementById('timeline').clientHeight"), 'a timeline'
    # The browser complains about answers that are not pages: they name no icon.
    same(browser.complaints, [], 'complaints of the browser')
    send_file(browser, images.png(97, 61, grey))
    browser.until("location.pathname === '/sobel' && document.readyState === 'complete'")
    same(browser.run('document.contentType'), 'image/png', 'type')
    same(pixels_of(browser, 'img'), (97, 61, images.sobel(97, 61, grey)), 'edges')
    browser.go(page_of(running))
    browser.submit('words')
    browser.until("location.pathname === '/wc' && document.readyState === 'complete'")
    same(browser.run('document.body.innerText').strip(),
         '{"lines":0,"words":8,"bytes":33}', 'counts')


@seen('--workers=8', goes=False)
def the_page_fits_a_phone(running, browser):
    browser.size(360, 700, 2, True)
    browser.media(prefers_color_scheme='dark', prefers_reduced_motion='reduce')
    browser.go(page_of(running))
    browser.until(SHOWN)
    browser.run("document.getElementById('sample').click()")
    browser.until("!document.getElementById('pictures').hidden")
    same(browser.run('document.documentElement.scrollWidth'), 360, 'width')
    same(browser.run('drawn.moving'), False, 'motion')
    same(browser.complaints, [], 'complaints of the browser')


@seen('--workers=4', goes=False)
def the_pages_look_right_on_a_phone_and_on_a_desk_light_and_dark(running, browser):
    sampled = """(() => {
        if (document.getElementById('where').hidden)
            return false;
        if (document.getElementById('pictures').hidden)
            document.getElementById('sample').click();
        return !document.getElementById('pictures').hidden;
    })()"""
    same(wrong_looks(browser, page_of(running), sampled, 'home'), [], 'looks of the page')
    same(wrong_looks(browser, page_of(running) + 'docs', name='docs'), [], 'looks of /docs')
    same(browser.complaints, [], 'complaints of the browser')
