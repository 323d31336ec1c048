/** The example of docs/from-supabase.md, run by bash with curl. */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { call, createTestWorkspaceWithStorage, userToken } from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

/** The only command of `npx` in the example. */
const NPX = 'npx() { printf %s "$TOKEN"; }\n'

test('page from Supabase: example: a user reads both notes, an anon key the shared one, files follow the prefix', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const user = await userToken(workspace, 'mia')
  const bearer = (headers: Readonly<Record<string, string>>) =>
    headers['authorization']?.replace('Bearer ', '')
  const env = {
    ...process.env,
    TENON_URL: inject('tenon').url,
    TENON_WORKSPACE_ID: workspace.workspaceId,
    TENON_ANON_KEY: workspace.anon['apikey'],
    TOKEN: bearer(workspace.operator),
    USER_TOKEN: bearer(user),
  }
  const blocks = [...(await readFile('docs/from-supabase.md', 'utf8')).matchAll(/```bash\n([\s\S]*?)```/g)]
  expect(blocks).toHaveLength(2)
  const commands = blocks.map(([, text = '']) => text).join('')
  const { stdout } = await promisify(execFile)('bash', ['-c', NPX + commands], { env })
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const titles = ({ data }: { data: { title: string }[] }) => data.map(({ title }) => title)
  expect(answers).toHaveLength(6)
  expect(answers[0]).toMatchObject({ collection: 'notes' })
  expect(answers.slice(2, 4)).toMatchObject([{ title: 'private', public: false }, { title: 'shared' }])
  expect(titles(answers[4])).toEqual(['shared', 'private'])
  expect(titles(answers[5])).toEqual(['shared'])
  expect(
    titles(
      (await call('GET', '/v1/collections/notes/documents', { as: await userToken(workspace, 'ben') })).body,
    ),
  ).toEqual(['shared'])

  const bucket = await bucketOf(workspace)
  const put = async (folder: string) =>
    (await call('PUT', `/v1/objects/${bucket}/avatars/${folder}/me.txt`, { as: user, body: 'x' })).status
  const { subject } = (await call('GET', '/v1/me', { as: user })).body
  expect([await put(subject), await put('other')]).toEqual([201, 403])
})
