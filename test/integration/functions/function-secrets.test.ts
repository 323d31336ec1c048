/** `env` and `secrets` of a function: values of now in the code, and masked in all that others see of its runs. */

import { beforeAll, describe, expect, test } from 'vitest'
import { deployed, invoke, linesOf, recordOf, resultOf, runIdOf } from '../../support/fixtures/functions.ts'
import { canary, publishFlow, remove, runFlow, storeSecret } from '../../support/fixtures/secrets.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

/** A function with one secret of its own. @returns its id, and the value */
async function withSecret(source: string, value: unknown = canary(), name = unique('key').replace('-', '_')) {
  await storeSecret(workspace, name, value)
  return { id: await deployed(workspace, source.replaceAll('NAME', name), { secrets: [name] }), name, value }
}

describe('values', () => {
  test('env and secrets: those of now, of any form; neither is in the environment of the process', async () => {
    const id = await deployed(
      workspace,
      `import { env, secrets } from 'tenon'
      export default (_, context) => [
        context.env.PLACE, env.PLACE, context.secrets.plain.length, secrets.pair.user, secrets.pair.password.length,
        Object.keys(context.secrets), typeof Deno.env === 'object' && (() => { try { return Deno.env.get('PLACE') ?? 'none' } catch { return 'denied' } })(),
      ]`,
      { env: { PLACE: 'Ulm' }, secrets: ['plain', 'pair'] },
    )
    await storeSecret(workspace, 'plain', 'twelve chars')
    await storeSecret(workspace, 'pair', { user: 'ada', password: canary() })
    const [place, imported, length, user, , names, ofProcess] = await resultOf(workspace.service, id)
    expect([place, imported, length, user, names]).toEqual(['Ulm', 'Ulm', 12, 'ada', ['pair', 'plain']])
    expect(['none', 'denied']).toContain(ofProcess)
    await storeSecret(workspace, 'plain', 'thirteen char')
    await call('PUT', `/v1/functions/${id}/config`, {
      as: workspace.operator,
      body: { env: { PLACE: 'Bonn' } },
    })
    expect((await resultOf(workspace.service, id)).slice(0, 3)).toEqual(['Bonn', 'Bonn', 13])
  })

  test('a secret that is missing, or of another workspace: the run fails and names it', async () => {
    const other = await addTestWorkspace(workspace)
    await storeSecret(other, 'theirs', canary())
    const id = await deployed(workspace, 'export default () => 1', { secrets: ['theirs'] })
    const reply = await invoke(workspace.service, id)
    expect([reply.status, reply.body.code]).toEqual([502, 'function_error'])
    expect(reply.body.detail).toBe(
      `The workspace has no secret \`theirs\`, which the configuration of the function names. Store it: PUT /v1/flows/workspaces/${workspace.workspaceId}/secrets/theirs.`,
    )
    expect(await recordOf(runIdOf(reply))).toMatchObject({
      status: 'failed',
      error: { code: 'function_error' },
    })
  })

  test('a secret that the function does not name: not there', async () => {
    await storeSecret(workspace, 'unnamed', canary())
    const id = await deployed(workspace, 'export default (_, { secrets }) => secrets.unnamed ?? "none"')
    expect(await resultOf(workspace.service, id)).toBe('none')
  })

  test('a deleted secret: the reply names the functions that use it', async () => {
    const { name, id } = await withSecret('export default () => 1')
    const { body } = await call('GET', `/v1/functions/${id}`, { as: workspace.operator })
    expect((await remove(workspace, name)).body.used_by).toEqual([body.name])
  })
})

describe('masking', () => {
  test('lines, result and error of a run: no secret, in any usual encoding', async () => {
    const source = `export default ({ fails }, { secrets, log }) => {
      const { NAME: text } = secrets
      console.log('plain', text, { nested: [text] })
      log.warn(btoa(text), encodeURIComponent(text))
      console.error('x'.repeat(8180 - text.length / 2) + text)
      Deno.stderr.writeSync(new TextEncoder().encode('raw ' + text + '\\n'))
      if (fails) throw new Error('refused: ' + text)
      return { [text]: 'https://api.test/?key=' + text }
    }`
    const { id, value } = await withSecret(source, canary('+/ü'))
    const text = String(value)
    const done = await invoke(workspace.service, id)
    const failed = await invoke(workspace.service, id, { fails: true })
    expect(done.body).toEqual({ '***': 'https://api.test/?key=***' })
    expect(failed.body).toMatchObject({ code: 'function_error', detail: 'refused: ***' })
    for (const reply of [done, failed]) {
      const lines = await eventually(async () => {
        const found = await linesOf(runIdOf(reply))
        return found.length >= 4 ? found : undefined
      })
      expect(lines[0]).toBe('plain *** { nested: [ "***" ] }')
      const all = JSON.stringify([lines, reply.body, await recordOf(runIdOf(reply))])
      for (const spelled of [text, encodeURIComponent(text), text.slice(0, 12)])
        expect(all).not.toContain(spelled)
      expect(all).toContain('raw ***')
    }
  })

  test('a secret of several lines: none of them is shown alone', async () => {
    const [first, second] = [canary(), canary()]
    const source = `export default (_, { secrets }) => secrets.NAME.split('\\n').map((line) => (console.log(line), line))`
    const { id } = await withSecret(source, `${first}\n${second}\n`)
    const reply = await invoke(workspace.service, id)
    expect(reply.body).toEqual(['***', '***', ''])
    expect(JSON.stringify(await linesOf(runIdOf(reply)))).not.toMatch(new RegExp(`${first}|${second}`))
  })

  test('a secret that a flow passes: the code has the value, lines and result do not', async () => {
    const value = canary()
    await storeSecret(workspace, 'lent', value)
    const id = await deployed(
      workspace,
      'export default ({ key }, { run }) => { console.log("got", key); return { key, length: key.length, run: run.id } }',
    )
    const tasks = `  - a: { call: function.invoke, with: { id: ${id}, input: { key: '\${ $secrets.lent }' } } }`
    const { status, output } = await runFlow(workspace, await publishFlow(workspace, ['lent'], tasks))
    expect([status, output.length]).toEqual(['completed', value.length])
    const lines = await linesOf(output.run)
    expect(lines).toEqual(['got ***'])
    expect(JSON.stringify([output, await recordOf(output.run)])).not.toContain(value)
  })
})
