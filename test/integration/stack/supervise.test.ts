/** The supervisor with small shell scripts: readiness, crashes, process groups, stages, foreign processes. */

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Supervisor, type SupervisorEvent } from '../../../stack/supervise.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { eventually, isDead } from './support.ts'

const dir = mkdtempSync(join(tmpdir(), 'tenon-supervise-'))
const events: SupervisorEvent[] = []
let supervisor: Supervisor

const sh = (name: string, script: string, ready = async () => {}) => ({
  name,
  command: 'sh',
  args: ['-c', script],
  logFile: join(dir, `${name}.log`),
  ready,
})
const types = () => events.map(({ type }) => type)
const written = (name: string) => readFileSync(join(dir, `${name}.log`), 'utf8').trim()

beforeEach(() => {
  events.length = 0
  supervisor = new Supervisor({ onEvent: (event) => events.push(event) })
})
afterEach(() => supervisor.stop())
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe('run', () => {
  it('run: process exits before it is ready: rejects with the last log lines', async () => {
    const run = supervisor.run(
      sh('broken', 'echo no such luck; exit 3', () => Promise.reject(new Error('not yet'))),
    )
    await expect(run).rejects.toThrow(/broken exited with code 3[\s\S]*no such luck/)
  })

  it('run: program does not exist: rejects', async () => {
    const run = supervisor.run({
      ...sh('none', ''),
      command: '/no/such/program',
      ready: () => Promise.reject(new Error()),
    })
    await expect(run).rejects.toThrow(/none could not be started/)
  })

  it('run: not ready in time: rejects and ends the process', async () => {
    let pid = 0
    const ready = () => {
      pid = supervisor.pid('late') ?? pid
      return Promise.reject(new Error('not yet'))
    }
    await expect(
      supervisor.run({ ...sh('late', 'exec sleep 60', ready), readyTimeoutMs: 300 }),
    ).rejects.toThrow(/not ready/)
    expect(isDead(pid)).toBe(true)
  })

  it('run: environment given: passes only that', async () => {
    process.env['TENON_TEST_SECRET'] = 'leak'
    await supervisor
      .run({ ...sh('env', 'env; exec sleep 60'), env: { GIVEN: 'yes' } })
      .finally(() => delete process.env['TENON_TEST_SECRET'])
    await eventually(() => written('env').includes('GIVEN=yes'))
    expect(written('env')).not.toContain('leak')
  })
})

describe('crash', () => {
  it('crash: once: restarted', async () => {
    await supervisor.run(sh('again', 'exec sleep 60'))
    const before = supervisor.pid('again') ?? 0
    process.kill(before, 'SIGKILL')
    await eventually(() => types().filter((type) => type === 'ready').length === 2)
    expect(types()).toEqual(['started', 'ready', 'exited', 'restarting', 'started', 'ready'])
    expect(supervisor.pid('again')).not.toBe(before)
  })

  it('crash: with grandchildren: they are ended too', async () => {
    await supervisor.run(sh('family', 'sleep 60 & echo $!; wait'))
    await eventually(() => written('family') !== '')
    const grandchild = Number(written('family'))
    process.kill(supervisor.pid('family') ?? 0, 'SIGKILL')
    await eventually(() => isDead(grandchild))
  })

  it('crash: five within a minute: given up with one clear line', async () => {
    await supervisor.run(sh('hopeless', 'exit 1'))
    await eventually(() => types().includes('gave_up'), 12_000)
    expect(events.at(-1)?.detail).toMatch(/^hopeless crashed 5 times in 60 s; its log is .*hopeless\.log$/)
    expect(types().filter((type) => type === 'exited')).toHaveLength(5)
  })
})

describe('liveness', () => {
  it('liveness: one failure between successes: the process stays; two in a row: restarted', async () => {
    const outcomes = [true, false, true, false, false]
    const probe = () => (outcomes.shift() === false ? Promise.reject(new Error()) : Promise.resolve())
    const liveness = { probe, everyMs: 20, failuresMax: 2 }
    await supervisor.run({ ...sh('stuck', 'exec sleep 60'), liveness })
    const before = supervisor.pid('stuck') ?? 0
    await eventually(() => types().filter((type) => type === 'ready').length === 2)
    expect(outcomes).toEqual([])
    expect([isDead(before), isDead(supervisor.pid('stuck') ?? 0)]).toEqual([true, false])
  })
})

describe('restart', () => {
  it('restart: healthy process: new pid, no crash counted', async () => {
    await supervisor.run(sh('healthy', 'exec sleep 60'))
    const before = supervisor.pid('healthy') ?? 0
    await supervisor.restart('healthy')
    expect(isDead(before)).toBe(true)
    expect(isDead(supervisor.pid('healthy') ?? 0)).toBe(false)
    expect(types()).not.toContain('exited')
  })
})

describe('stop', () => {
  it('stop: TERM ignored, with grandchildren: killed within 5 s', async () => {
    await supervisor.run(sh('deaf', 'trap "" TERM; sleep 60 & echo $!; while :; do sleep 1; done'))
    await eventually(() => written('deaf') !== '')
    const pids = [supervisor.pid('deaf') ?? 0, Number(written('deaf'))]
    const elapsedMs = stopwatch()
    await supervisor.stop()
    expect(elapsedMs()).toBeLessThan(5_000)
    expect(pids.map(isDead)).toEqual([true, true])
  })

  it('stop: several stages: later stages first', async () => {
    const scriptOf = (name: string) =>
      `trap 'echo ${name} >> ${join(dir, 'order')}; exit 0' TERM; while :; do sleep 0.05; done`
    await supervisor.run({ ...sh('server', scriptOf('server')), stage: 0 })
    await supervisor.run(sh('user', scriptOf('user')))
    await eventually(() => supervisor.pid('user') !== undefined)
    // The shells need some time to set their traps.
    await new Promise((resolve) => setTimeout(resolve, 200))
    await supervisor.stop()
    expect(readFileSync(join(dir, 'order'), 'utf8')).toBe('user\nserver\n')
  })

  it('stop: process of another owner: untouched', async () => {
    const foreignProcess = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
    await supervisor.run(sh('ours', 'exec sleep 60'))
    await supervisor.stop()
    expect(isDead(foreignProcess.pid ?? 0)).toBe(false)
    foreignProcess.kill('SIGKILL')
  })
})
