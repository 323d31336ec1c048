/**
 * `npm run test:openapi` checks the OpenAPI documents with a linter of others, by the rules of redocly.yaml. It needs the package registry.
 */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { OPERATIONS } from '../../../src/features/index.ts'
import { openApi } from '../../../src/features/openapi/document.ts'
import { workspaceDocument } from '../../../src/features/openapi/workspace-document.ts'

const PACKAGE = '@redocly/cli'
const VERSION = '2.77.0'
const RULES = join(import.meta.dirname, 'redocly.yaml')

const TIME = { time: { type: 'string', format: 'date-time' } }

const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'tenon-openapi-'))
try {
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', `${PACKAGE}@${VERSION}`]
  await run('npm', args, { cwd: folder })
  const program = join(folder, 'node_modules', PACKAGE, 'bin', 'cli.js')
  const schema = {
    type: 'object',
    required: ['at'],
    properties: { at: { $ref: '#/$defs/time' } },
    $defs: TIME,
  }
  const documents = {
    'openapi.json': openApi(OPERATIONS),
    'workspace.json': await workspaceDocument('Court bookings', {
      collections: [{ name: 'bookings', schema, mode: 'enforce' }],
      functions: [{ name: 'price', input_schema: schema, output_schema: null }],
      flows: [{ name: 'confirm', input_schema: schema }],
    }),
  }
  for (const [name, document] of Object.entries(documents)) {
    const file = join(folder, name)
    await writeFile(file, JSON.stringify(document))
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const found = run(process.execPath, [program, 'lint', file, '--config', RULES], { cwd: folder, env })
    const { stdout, stderr } = await found.catch((error: { stdout: string; stderr: string }) => {
      process.exitCode = 1
      return error
    })
    process.stdout.write(`\n== ${name}\n${stdout}${stderr}`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
