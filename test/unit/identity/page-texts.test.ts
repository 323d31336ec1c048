/** The texts of the pages for people: none is a hint for administrators or clients of the API. */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** Folders whose files make pages, or the texts on them. */
const FOLDERS = [
  ...['pages', 'users', 'issuer'].map((folder) => `src/features/identity/${folder}`),
  ...['src/api/issuer', 'src/api'],
]
/** Files that make pages, or refusals that pages show, name one of these. */
const MAKES_PAGES = /\b(plainPage|renderPage|Page|Refusal|LOGIN_ERRORS)\b/
/** Commands, settings and paths of the API. */
const FOR_ADMINS = /\btenon [a-z]|\bnpx\b|TENON_\w+ |SMTP_|\/v1\/|\bauth\.sign_up\b/
const COMMENT = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm

test('texts of pages: none names a command, a setting or a path of the API, but on the page for admins', async () => {
  const found: string[] = []
  let files = 0
  for (const folder of FOLDERS)
    for (const name of (await readdir(folder)).filter((one) => one.endsWith('.ts'))) {
      const source = (await readFile(join(folder, name), 'utf8')).replaceAll(COMMENT, '')
      if (!MAKES_PAGES.test(source)) continue
      files += 1
      const lines = source.split('\n').filter((line) => FOR_ADMINS.test(line))
      found.push(...lines.map((line) => `${name}: ${line.trim()}`))
    }
  expect(files).toBeGreaterThan(15)
  // Where an operator or an admin enters a token, for the Temporal UI.
  expect(found).toEqual([
    expect.stringContaining('pages.ts: operator or of an admin (<code>tenon token</code>)'),
  ])
})
