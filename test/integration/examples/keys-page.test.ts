/** Runs the example of docs/keys-and-kms.md from its first line to its last, in an installation of its own with a value in every column. */

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { expectReadable, writeSealedRows } from '../../support/fixtures/sealed-rows.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'

const execute = promisify(execFile)
const PAGE = readFileSync('docs/keys-and-kms.md', 'utf8')
const blocks = (language: string) =>
  [...PAGE.matchAll(new RegExp(`^ *\`\`\`${language}\\n([^]*?)\\n *\`\`\``, 'gm'))].map(
    ([, code = '']) => code,
  )

/** What differs from one installation to the next. */
const withoutValues = (text: string) =>
  text
    .split('\n')
    .map((line) =>
      line
        .trim()
        .replaceAll(/\b[0-9a-f]{16}\b/g, 'KEY')
        .replaceAll(/\d{4}-\d\d-\d\d \S+/g, 'TIME'),
    )
    .map((line) => line.replaceAll(/\b\d+\b/g, 'N').replaceAll(/ +/g, ' '))

test('example of a rotation on the page: runs, prints what the page shows, and leaves all values under the new key', async () => {
  await withDatabase(async ({ url, client }) => {
    const old = randomBytes(32).toString('base64')
    await migrateHere(url, old)
    const written = await writeSealedRows(client, old, ['a', 'b', 'c'])
    const password = (purpose: string) => deriveSecret(inject('tenon').masterKey, purpose)
    const env = {
      ...process.env,
      ...{ DATABASE_URL: url, TENON_MASTER_KEY: old, TENON_APP_PASSWORD: password(DERIVED.appPassword) },
      ...{ TENON_BUILDER_PASSWORD: password(DERIVED.builderPassword), TEMPORAL_ADDRESS: '' },
    }
    const script = `${['set -e', ...blocks('sh')].join('\n')}\necho "$NEW" >&2`
    const { stdout, stderr } = await execute('sh', ['-c', script], { env })
    const fresh = stderr.trim().split('\n').at(-1) ?? ''
    await expectReadable(client, fresh, written)
    const shown = withoutValues(blocks('console').join('\n'))
    const printed = withoutValues(stdout)
    expect(shown.filter((line) => !printed.includes(line))).toEqual([])
    expect(shown).toHaveLength(5)
  })
})
