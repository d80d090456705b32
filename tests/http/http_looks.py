# SPDX-License-Identifier: MIT
"""
How a page looks in Chromium: on a phone and on a desk, light and dark. For http_seen.py, and
by itself:

usage: python3 http_looks.py FILE...    checks pages in files, and exits with 1 if one is wrong;
                                        with 77 if there is no Chromium
env: PICTURES  a folder for the pictures of the pages
"""
import os
import sys
import urllib.parse

from http_browser import PROGRAM, Browser

WIDTHS = 390, 1280
# Each text's size and contrast (of WCAG 2), each target's size, and the width of the page.
LOOKS = r'''(() => {
    const wrong = [];
    // Computed colours are rgb(R, G, B) or rgba(R, G, B, A).
    const rgba = (text) => [...text.match(/[\d.]+/g).map(Number), 1].slice(0, 4);
    const luminance = (colour) => {
        const [r, g, b] = colour.slice(0, 3).map((part) => part / 255)
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const colour = rgba(getComputedStyle(node).backgroundColor);
            if (colour[3] === 1)
                return colour;
        }
        return [255, 255, 255, 1];
    };
    const shown = (box) => box.width > 1 && box.height > 1;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let nr = 0;
    while (texts.nextNode()) {
        const text = texts.currentNode.data.trim(), of = texts.currentNode.parentElement;
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        if (!text || of.closest('title, script, style') || !shown(range.getBoundingClientRect()))
            continue;
        const style = getComputedStyle(of);
        const sides = [luminance(rgba(style.color)), luminance(ground(of))];
        const contrast = (Math.max(...sides) + 0.05) / (Math.min(...sides) + 0.05);
        const size = parseFloat(style.fontSize);
        nr++;
        if (contrast < 4.5)
            wrong.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
        if (size < 11 || of.closest('svg'))
            wrong.push(`letters of ${size} px: ${text.slice(0, 40)}`);
    }
    if (!nr)
        wrong.push('no text');
    for (const target of document.querySelectorAll('a, button, input, textarea, select, summary')) {
        const box = target.getBoundingClientRect();
        if (shown(box) && (box.width < 44 || box.height < 44))
            wrong.push(`target of ${box.width.toFixed(1)} x ${box.height.toFixed(1)} px: ` +
                       (target.textContent || target.id).slice(0, 40));
    }
    if (document.documentElement.scrollWidth > innerWidth)
        wrong.push(`${document.documentElement.scrollWidth} px wide in ${innerWidth}`);
    return wrong;
})()'''


def wrong_looks(browser, url, ready='true', name='page'):
    """Returns what is wrong with a page's looks, at each width and in each scheme."""
    wrong = []
    for width in WIDTHS:
        for scheme in 'light', 'dark':
            browser.size(width, 844, 2 if width < 600 else 1, width < 600)
            browser.media(prefers_color_scheme=scheme)
            browser.go(url)
            browser.until(ready)
            wrong += ['%d px, %s: %s' % (width, scheme, what) for what in browser.run(LOOKS)]
            if os.environ.get('PICTURES'):
                path = '%s/%s_%d_%s.png' % (os.environ['PICTURES'], name, width, scheme)
                with open(path, 'wb') as file:
                    file.write(browser.screenshot())
    return wrong


def main():
    if not PROGRAM:
        print('there is no Chromium')
        sys.exit(77)
    wrong = []
    with Browser() as browser:
        for path in sys.argv[1:]:
            url = 'file://' + urllib.parse.quote(os.path.abspath(path))
            wrong += wrong_looks(browser, url, name=os.path.basename(path))
        wrong += browser.complaints
    for what in wrong:
        print(what)
    sys.exit(bool(wrong))


if __name__ == '__main__':
    main()
