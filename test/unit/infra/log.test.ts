/** Log lines are written together, and none is lost however the process ends by itself. */

import { execFile } from 'node:child_process'
import { expect, test } from 'vitest'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import { openLog, plainLines } from '../../../src/infra/log.ts'

/** What a process that logs one line and then does this has written. One that goes on is ended when the line is there. */
function written(then: string): Promise<string> {
  const code = `
    const { openLog } = await import('./src/platform/log.ts')
    openLog('info', 'test').info('the last line')
    ${then}`
  const args = ['--input-type=module', '-e', code]
  return new Promise((done) => {
    const child = execFile(process.execPath, args, (_error, stdout) => done(stdout))
    child.stdout?.on('data', (text: string) => text.includes('the last line') && child.kill('SIGKILL'))
  })
}

test.each([
  ['it exits', 'process.exit(0)'],
  ['it fails', "setTimeout(() => { throw new Error('oh') }, 1)"],
  ['it has nothing more to do', ''],
])('where %s, the last line is there', async (_how, then) => {
  expect(await written(then)).toContain('the last line')
})

test('where it goes on, the line is there after a moment', async () => {
  expect(await written('setInterval(() => {}, 1_000)')).toContain('the last line')
})

test('a plain line says which process it is of, and nothing that looks like a secret', () => {
  const lines: string[] = []
  const log = plainLines(openLog('info', 'test', { write: (line) => void lines.push(line) }))
  const key = makeKey('service')
  log.info({ path: `/v1/${key}` }, 'request')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    ...{ process: 'test', msg: 'request', path: '/v1/[redacted]' },
  })
})
