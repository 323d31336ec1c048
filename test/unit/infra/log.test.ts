/** Buffered log output: lines are written in batches, and none is lost however the process ends. */

import { execFile, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import { openLog, plainLines } from '../../../src/infra/log.ts'

/**
 * Output of a process that logs one line and then runs this code. A process that continues is ended once the
 * line is there.
 */
function written(then: string): Promise<string> {
  const code = `
    const { openLog } = await import('./src/infra/log.ts')
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
])('log: %s: the last line is written', async (_how, then) => {
  expect(await written(then)).toContain('the last line')
})

test('log: the process continues: the line is written shortly after', async () => {
  expect(await written('setInterval(() => {}, 1_000)')).toContain('the last line')
})

test('log: its disk is full, more lines than wait for room: the process goes on', async () => {
  const code = `
    const { openLog } = await import('./src/infra/log.ts')
    const log = openLog('info', 'test')
    for (let n = 0; n < 20; n++) {
      for (let line = 0; line < 1_000; line++) log.info({ filling: 'x'.repeat(100) }, 'a line')
      await new Promise((done) => setTimeout(done, 20))
    }
    process.stderr.write('served on')
    process.kill(process.pid, 'SIGKILL')`
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', full, 'pipe'],
  })
  closeSync(full)
  expect(await text(child.stderr as Readable)).toBe('served on')
})

test('log line: names its process and contains nothing that looks like a secret', () => {
  const lines: string[] = []
  const log = plainLines(openLog('info', 'test', { write: (line) => void lines.push(line) }))
  const key = makeKey('service')
  log.info({ path: `/v1/${key}` }, 'request')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    ...{ process: 'test', msg: 'request', path: '/v1/[redacted]' },
  })
})

test('process with output of its own: console, warnings and its last error are lines of the log', async () => {
  const code = `
    const { logAllOutput } = await import('./src/app/process-output.ts')
    const { openLog } = await import('./src/infra/log.ts')
    logAllOutput(openLog('info', 'test'))
    console.log('%s said', 'a library')
    console.warn('careful')
    process.emitWarning('old', 'DeprecationWarning')
    setTimeout(() => Promise.reject(new Error('oh')), 10)`
  const ended = await new Promise<{ code: unknown; output: string }>((done) =>
    execFile(process.execPath, ['--input-type=module', '-e', code], (error, stdout, stderr) =>
      done({ code: error?.code, output: stdout + stderr }),
    ),
  )
  const lines = ended.output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect([ended.code, lines.map(({ level, msg, err }) => [level, msg, err?.message])]).toEqual([
    1,
    [
      [30, 'a library said', undefined],
      [40, 'careful', undefined],
      [40, 'warning of Node.js', 'old'],
      [60, 'uncaught exception', 'oh'],
    ],
  ])
})
