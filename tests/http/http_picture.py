# SPDX-License-Identifier: MIT
"""
Makes docs/http_page.png: the page of examples/http_server under some load, in Chromium.

usage, where runnel was built: python3 http_picture.py FILE
env: HTTP_SERVER the program; RNL_TEST_DEVICE where it works (host).
"""
import random
import sys
import threading
import time

import http_images as images
from http_browser import PROGRAM, Browser
from http_checks import DEVICE, picture
from http_client import Connection, Server

SECONDS = 7     # the timeline is full


def work(port, over, pace):
    connection = Connection(port)
    image = images.pnm(5, 400, 300, picture(400, 300))
    while not over.is_set():
        for _ in range(pace.randrange(20)):
            connection.ask('/wc', b'some words ' * pace.randrange(60000))
        for _ in range(pace.randrange(8)):
            connection.ask('/sobel', image)
        over.wait(pace.random() / 10)
    connection.close()


def main():
    if not PROGRAM:
        sys.exit('http_picture.py: there is no Chromium: make deps http-page installs it')
    over = threading.Event()
    with Server('--workers=4', device=DEVICE) as running, Browser() as browser:
        clients = [threading.Thread(target=work, args=(running.port, over, random.Random(seed)))
                   for seed in range(4)]
        for client in clients:
            client.start()
        browser.size(900, 600)
        browser.go('http://127.0.0.1:%d/' % running.port)
        browser.until("!document.getElementById('where').hidden")
        browser.run("document.getElementById('sample').click()")
        browser.until("!document.getElementById('pictures').hidden")
        browser.run("document.querySelector('#words button').click()")
        time.sleep(SECONDS)
        with open(sys.argv[1], 'wb') as file:
            file.write(browser.screenshot())
        over.set()
        for client in clients:
            client.join()


main()
