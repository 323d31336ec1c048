/** Runs the example of docs/openapi.md as it stands there, and compares its other block with the document. */

import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { OPENAPI_LIMITS } from '../../../src/features/openapi/limits.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const PAGE = readFileSync('docs/openapi.md', 'utf8')
const block = (language: string) =>
  new RegExp(`^\`\`\`${language}\\n([^]*?)\\n\`\`\``, 'm').exec(PAGE)?.[1] ?? ''

test('page of OpenAPI: commands print what the page shows', async () => {
  const { workspaceId, operator } = await createTestWorkspace()
  const env = {
    ...process.env,
    TENON_URL: inject('tenon').url,
    TENON_WORKSPACE_ID: workspaceId,
    TENON_TOKEN: operator['authorization']?.replace('Bearer ', ''),
  }
  const cwd = mkdtempSync(join(tmpdir(), 'tenon-openapi-'))
  const { stdout } = await promisify(execFile)('bash', ['-c', block('sh')], { env, cwd })
  const shown = block('sh')
    .split('\n')
    .filter((line) => line.startsWith('# '))
  expect(stdout.trim().split('\n')).toEqual(shown.map((line) => line.slice(2)))
})

test('page of OpenAPI: events of streams and limits are those of the document', async () => {
  const { body } = await call('GET', '/openapi.json')
  const { content } = body.paths['/v1/events/subscribe'].get.responses['200']
  expect(JSON.parse(block('json'))).toEqual(content)
  expect(PAGE).toContain(`With more than ${OPENAPI_LIMITS.thingsMax} collections`)
  expect(PAGE).toContain(`${OPENAPI_LIMITS.schemaBytesMax / 1_048_576} MiB of schemas`)
})
