/** Names of one script pass, words of several do not (UTS #39). */

import { describe, expect, test } from 'vitest'
import { mixesScripts, mixesScriptsInWord } from '../../../src/core/text/visible-text.ts'

/** Look-alikes of Latin letters, and letters that no Latin word has. */
const OTHERS = {
  ...{ Cyrillic: '\u0430', Greek: '\u03bf', Armenian: '\u0585', Georgian: '\u10d0', Hebrew: '\u05d0' },
  ...{ Arabic: '\u0627', Devanagari: '\u0915', Thai: '\u0e01' },
  ...{ Cherokee: '\u13aa', Coptic: '\u2c9f', Lisu: '\ua4d0' },
}

describe('word', () => {
  test.each(Object.entries(OTHERS))(
    'a %s letter at each place of a Latin word: several scripts',
    (_name, letter) => {
      for (const word of ['Claude', 'Cursor', 'VSCode'])
        for (let at = 0; at <= word.length; at++) {
          const name = word.slice(0, at) + letter + word.slice(at + 1)
          expect([name, mixesScriptsInWord(name), mixesScripts(`Agent ${name}`)]).toEqual([name, true, true])
        }
    },
  )

  test.each([
    ...[
      'Claude Code (desk)',
      'Visual Studio Code',
      'Caf\u00e9',
      'Cafe\u0301',
      'VS Code 2.0 \u2764\ufe0f',
      '',
      '123',
    ],
    ...[
      '\u042f\u043d\u0434\u0435\u043a\u0441',
      '\u03a0\u03c1\u03ac\u03ba\u03c4\u03bf\u03c1\u03b1\u03c2',
      '\u0627\u0644\u0648\u0643\u064a\u0644',
    ],
    ...[
      '\u65e5\u672c\u8a9e\u306e\u30a2\u30d7\u30ea\u30fc',
      '\ud55c\uad6d\u4eba \uc571',
      '\u4e2d\u3105',
      'Claude\u52a9\u624b',
      '\u0915\u094d\u0937',
      '\u13aa\u13ab',
    ],
  ])('%s: one script, or one writing system', (name) => {
    expect([mixesScriptsInWord(name), mixesScripts(name)]).toEqual([false, false])
  })
})

test('words of different scripts: allowed as words, told for the whole name; not for Latin beside Han', () => {
  const cases = {
    '\u042f\u043d\u0434\u0435\u043a\u0441 Music': true,
    '\u0410\u0421\u041c\u0415 Agent': true,
    'ChatGPT \u30a2\u30d7\u30ea': false,
    '\u4e2d\u6587 Agent': false,
  }
  for (const [name, mixed] of Object.entries(cases))
    expect([name, mixesScriptsInWord(name), mixesScripts(name)]).toEqual([name, false, mixed])
})
