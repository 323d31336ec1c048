/** Runs the commands of docs/identity.md about second factors and sessions, as they stand there, one after the other. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { addAccount, addClient, inWorkspace, tokensOf } from '../../support/clients/browser.ts'
import { operatorEnv } from '../../support/clients/cli.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

/** The operator's token, and that of the person, whom a browser would sign in. */
const NPX =
  'npx() { case "$*" in *" token") printf %s "$TOKEN" ;; *" login") printf %s "$PERSON" ;; esac; }\n'

test('page of sign-ins: its commands require a second factor and take it back, list sessions and consents, and end the oldest session', async () => {
  const workspace = await createTestWorkspace()
  const { operator } = workspace
  const [clientId, account] = await Promise.all([
    addClient(operator),
    addAccount(operator, { role: 'workspace_admin', ...inWorkspace(workspace) }),
  ])
  await tokensOf(clientId, account)
  const { access_token: PERSON } = (await tokensOf(clientId, account)).body
  const blocks = [...(await readFile('docs/identity.md', 'utf8')).matchAll(/```sh\n([\s\S]*?)```/g)]
  const cwd = await mkdtemp(join(tmpdir(), 'tenon-page-'))
  const env = {
    ...process.env,
    ...operatorEnv(workspace),
    ...{
      TENON_TENANT_ID: workspace.tenantId,
      TOKEN: operator['authorization']?.slice('Bearer '.length),
      PERSON,
    },
  }
  const script = NPX + blocks.map(([, text = '']) => text).join('')
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { env, cwd })
  await rm(cwd, { recursive: true })
  expect(stdout.match(/"require_mfa":(true|false)/g)).toEqual(
    ['true', 'true', 'false'].map((value) => `"require_mfa":${value}`),
  )
  expect(stdout.match(/"current": true/g)).toHaveLength(1)
  expect(stdout).toMatch(/"id":"ses_\w+","ended":true/)
  expect(stdout).toContain('"client_name": "App"')
  const left = await call('GET', `/v1/accounts/${account.id}/sessions`, { as: operator })
  expect(left.body.data).toHaveLength(1)
})
