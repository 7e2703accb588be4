#!/usr/bin/env python3
"""filter.py <header>: the header as Doxygen wants to read it, since ours have plain comments.

A block of // right before declarations becomes one of Doxygen's, and is repeated for each of those up to the next blank line or
comment, as a reader takes it. A comment behind a declaration becomes ///<, with the lines that go on below it. Indented
lines are kept as they stand. What is deleted, defaulted or moves, without a word, is left out.
"""
import re
import sys


def escaped(text):
    """Nothing of ours is a command or a tag; backquotes are code."""
    pieces = text.split('`')
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r'[\\@<>#&%|*_~]', r'\\\g<0>', pieces[i]).replace('\\*', '&lowast;').replace('\\~', '&#126;')
        pieces[i] = pieces[i].replace('\\_', '_').replace('\\|', '|')
    return '`'.join(pieces)


def doc_block(indent, lines):
    """`lines`: of one comment, without their slashes."""
    out, verbatim, text = [], [], []

    def end_text():
        out.extend(escaped('\n'.join(text)).split('\n') if text else [])
        text.clear()

    def end_verbatim():
        if verbatim:
            language = 'cpp' if any(line.rstrip().endswith((';', '{')) for line in verbatim) else 'unparsed'
            out.extend([f'@code{{.{language}}}', *verbatim, '@endcode'])
            verbatim.clear()

    for line in lines:
        if line.startswith('  '):
            end_text()
            verbatim.append(line)
        else:
            end_verbatim()
            text.append(line.strip())
    end_verbatim()
    end_text()
    # Not as ///: there Doxygen loses the end of code that has // in it.
    return [f'{indent}/**', *out, f'{indent}*/']


COMMENT = re.compile(r'^(\s*)//(.*)$')
TRAILING = re.compile(r'^(\s*[^/"\s](?:[^"/]|"[^"]*"|/(?!/))*?)(\s+)// (.*)$')
SILENT = re.compile(r'^\s*((?!//).*= (delete|default)|(\w+)\(\3&& ?\w*\) noexcept|\w+& operator=\(\w+&& ?\w*\) noexcept);$')
NO_DECLARATION = re.compile(r'^\s*([{}#:)]|(public|private|protected):|friend |static_assert|namespace |#)')


def filtered(lines):
    out = []
    pending, pending_indent = [], ''  # The comment that documents what comes next.
    ended = True  # The code before is whole, so that what comes next begins a declaration.
    at = 0
    while at < len(lines):
        line = lines[at]
        comment = COMMENT.match(line)
        if comment:
            pending, pending_indent = [], comment[1]
            while at < len(lines) and (comment := COMMENT.match(lines[at])):
                pending.append(comment[2][1:] if comment[2].startswith(' ') else comment[2])
                at += 1
            continue
        at += 1
        if not line.strip():
            pending = []
            ended = True
            out.append(line)
            continue
        trailing = None if re.match(r'^\s*(}|#)', line) else TRAILING.match(line)
        indent = line[:len(line) - len(line.lstrip())]
        begins = ended and not NO_DECLARATION.match(line)
        code = trailing[1] if trailing else line
        if SILENT.match(code) and begins and not trailing and not (pending and indent == pending_indent):
            continue
        if begins and pending and indent == pending_indent and not trailing:
            out.extend(doc_block(indent, pending))
        if trailing:
            words = [trailing[3]]
            column = len(trailing[1]) + len(trailing[2])
            while at < len(lines) and re.match(r'^ {%d}// ' % column, lines[at]):
                words.append(lines[at].strip()[3:])
                at += 1
            text = escaped(' '.join(words))
            out.append(f'{code} ///< {text}')
        else:
            out.append(line)
        stripped = code.rstrip()
        ended = stripped.endswith((';', '}', '{', ',', ':')) or stripped.startswith(('#', 'template'))
        if stripped.endswith(',') and not re.match(r'^\s*k[A-Z]\w*( = .*)?,$', stripped):
            ended = False  # Of parameters, not of an enumeration.
    return out


def main():
    with open(sys.argv[1], encoding='utf-8') as header:
        print('\n'.join(filtered(header.read().splitlines())))


if __name__ == '__main__':
    main()
