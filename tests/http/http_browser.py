# SPDX-License-Identifier: MIT
"""
Headless Chromium, driven by its DevTools protocol over a pipe: for http_page.py.

The pipe is descriptors 3 and 4 of the browser; each message is JSON, followed by a NUL
(https://chromedevtools.github.io/devtools-protocol). The page's complaints are kept.
"""
import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from http_client import PATIENCE

# Each of these is Chromium or Chrome.
PROGRAM = os.environ.get('CHROMIUM') or next(
    filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
OPTIONS = ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
           '--no-first-run', '--disable-extensions', '--disable-background-networking',
           '--disable-component-update', '--disable-sync', '--hide-scrollbars',
           '--remote-debugging-pipe')
# A program that becomes the browser.
BEGIN = '''import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])'''


class Gone(Exception):
    """The browser loaded another page before the command was done."""


class Browser:
    """The browser with one page, until its `with` ends."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.to = os.pipe()
        self.come, from_browser = os.pipe()
        # BEGIN copies these to 3 and 4, so they must have other numbers.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 5) for end in (to_browser, from_browser)]
        self.process = subprocess.Popen(
            [sys.executable, '-c', BEGIN, *map(str, ends), PROGRAM, *OPTIONS,
             '--user-data-dir=' + self.profile.name, 'about:blank'],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.news = threading.Condition()
        self.answers, self.complaints, self.nr, self.over = {}, [], 0, False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.session = None
        target = next(target for target in self.call('Target.getTargets')['targetInfos']
                      if target['type'] == 'page')
        self.session = self.call('Target.attachToTarget', targetId=target['targetId'],
                                 flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'DOM', 'Network', 'Audits'):
            self.call(domain + '.enable')

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.session = None
        try:
            self.call('Browser.close')
            self.process.wait(PATIENCE)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.reader.join()
        os.close(self.to)
        self.profile.cleanup()

    # ---- messages ----

    def _read(self):
        rest = b''
        while True:
            data = os.read(self.come, 1 << 16)
            *messages, rest = (rest + data).split(b'\0')
            with self.news:
                for message in map(json.loads, messages):
                    self._take(message)
                self.over = not data
                self.news.notify_all()
            if not data:
                os.close(self.come)
                return

    def _take(self, message):
        name, told = message.get('method'), message.get('params')
        if 'id' in message:
            self.answers[message['id']] = message
        elif name == 'Runtime.exceptionThrown' or name == 'Audits.issueAdded' or \
                (name == 'Runtime.consoleAPICalled' and told['type'] in ('error', 'warning')) or \
                (name == 'Log.entryAdded' and told['entry']['level'] in ('error', 'warning')):
            self.complaints.append(json.dumps(told)[:1000])

    def call(self, method, **params):
        """Returns the result of a command to the page, or to the browser if there is no page
        yet."""
        self.nr += 1
        nr = self.nr
        message = {'id': nr, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self.to, data):]
        with self.news:
            assert self.news.wait_for(lambda: nr in self.answers or self.over, PATIENCE), \
                'the browser does not answer %s' % method
            answer = self.answers.pop(nr, {'error': 'the browser has ended'})
        error = str(answer.get('error'))
        if 'context' in error or 'navigated' in error:
            raise Gone(error)
        assert 'error' not in answer, '%s: %s' % (method, error)
        return answer['result']

    # ---- the page ----

    def go(self, url):
        self.call('Page.navigate', url=url)
        self.until('location.href == %s && document.readyState == "complete"' % json.dumps(url))

    def run(self, script):
        """Returns the value of an expression, which may be a promise."""
        told = self.call('Runtime.evaluate', expression=script, returnByValue=True,
                         awaitPromise=True, userGesture=True)
        assert 'exceptionDetails' not in told, '%s: %s' % (script, told['exceptionDetails'])
        return told['result'].get('value')

    def until(self, script):
        """Waits until an expression is true. Returns its value."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                value = self.run(script)
            except Gone:
                value = None
            if value:
                return value
            assert time.monotonic() < end, 'never true: %s' % script
            time.sleep(0.02)

    def submit(self, name):
        """Submits a form; without scripts the browser shows the answer."""
        try:
            self.run("document.getElementById('%s').requestSubmit()" % name)
        except Gone:
            pass

    def choose_file(self, selector, path):
        root = self.call('DOM.getDocument')['root']['nodeId']
        node = self.call('DOM.querySelector', nodeId=root, selector=selector)['nodeId']
        self.call('DOM.setFileInputFiles', nodeId=node, files=[path])

    def size(self, width, height, scale=1, mobile=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=scale, mobile=mobile)

    def media(self, **features):
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': name.replace('_', '-'), 'value': value} for name, value in features.items()])

    def screenshot(self):
        """Returns the whole page as a PNG."""
        return base64.b64decode(self.call('Page.captureScreenshot', format='png',
                                          captureBeyondViewport=True)['data'])
