// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** What is foreseen of a run is what it asks; where that is not known, nothing is. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Catalogue } from '../../../flows-dsl/compile.ts'
import type { FlowIR, Json, JsonObject } from '../../../flows-dsl/ir.ts'
import { type Asked, Course, type Whereabouts } from '../../../flows-dsl/machine/course.ts'
import { type CallRequest, runFlow } from '../../../flows-dsl/run.ts'
import { CATALOGUE, compiled, INFO, World } from '../../flows/scenario.ts'
import { repeated } from '../../support/soak.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const MEANS = { evaluationSteps: 20_000, events: 200, nowMs: () => 0, random: () => 0 }
const FORESEEN_MAX = 5

/** The next page, whatever was asked: what is asked depends on what was answered. */
const answerTo = (given: JsonObject): Json => ({
  next: `${given['endpoint']}x`,
  n: String(given['endpoint']).length,
})

/** Foresees at each call, and keeps what was foreseen and what was asked. */
class Seer extends World {
  readonly asked: string[] = []
  /** What is foreseen of a run that has not begun. */
  first: Asked | undefined
  /** By how many calls had been asked for. */
  readonly foreseen: string[][] = []
  readonly #ir: FlowIR

  constructor(ir: FlowIR) {
    super()
    this.#ir = ir
  }

  override async call(request: CallRequest, where?: () => Whereabouts | undefined): Promise<Json> {
    this.asked.push(lineOf(request))
    const stands = request.local === 'brief' ? where?.() : undefined
    const foreseen = stands === undefined ? [] : this.#ahead(stands, answerTo(request.arguments))
    this.foreseen.push(foreseen)
    await super.call({ ...request, function: 'http' })
    return answerTo(request.arguments)
  }

  #ahead(stands: Whereabouts, answer: Json): string[] {
    // As it travels.
    const course = Course.from(
      JSON.parse(JSON.stringify(this.#ir)),
      JSON.parse(JSON.stringify(stands)),
      MEANS,
    )
    const lines: string[] = []
    let output = answer
    while (lines.length < FORESEEN_MAX) {
      const asked = course.next(output)
      if (asked === undefined) break
      lines.push(lineOf(asked))
      output = answerTo(asked.arguments)
    }
    return lines
  }
}

const lineOf = ({ step, function: name, arguments: given }: Asked | CallRequest) =>
  `${step.place} ${name} ${JSON.stringify(given)}`

/** Reading documents is made beside the run, too. */
const LOCAL = { ...CATALOGUE, 'collection.get': { ...CATALOGUE['collection.get'], local: true } } as Catalogue

async function seen(tasks: string): Promise<Seer> {
  const ir = compiled(`${HEAD}do:\n${tasks}`, LOCAL)
  const seer = new Seer(ir)
  const input = { url: 'http://a/' }
  seer.first = Course.of(ir, { input, info: INFO }, MEANS).first()
  await seer.until(runFlow(ir, input, seer, INFO))
  return seer
}

const get = (name: string, url = '${ .next // .url }', more = '') =>
  `  - ${name}: { call: http, with: { method: get, endpoint: '${url}' }${more} }\n`
const create = '  - put: { call: collection.create, with: { name: c, document: {} } }\n'

describe('of requests that follow each other', () => {
  test('each is foreseen with what the one before it will be answered', async () => {
    const { first, asked, foreseen } = await seen(get('a') + get('b') + get('c'))
    expect(asked.map((line) => line.split(' ')[0])).toEqual(['/do/a', '/do/b', '/do/c'])
    expect([first && lineOf(first), ...foreseen]).toEqual([asked[0], asked.slice(1), asked.slice(2), []])
  })

  test('those of a loop are, of a branch that is taken, and of a task with a limit', async () => {
    const loop = `  - all: { for: { each: n, in: '\${ [1, 2] }' }, do: [ { ${get('one').trim().slice(2)} } ] }\n`
    const branch =
      "  - which: { switch: [ { no: { when: '${ .n == 0 }', then: end } }, { yes: { then: b } } ] }\n"
    const limited = get('b', '${ .next }', ', timeout: { after: PT10S }')
    const { asked, foreseen } = await seen(loop + branch + limited)
    expect(foreseen).toEqual([asked.slice(1), asked.slice(2), []])
  })

  test.each([
    ['what changes something', create],
    ['a call within the platform', '  - read: { call: collection.get, with: { name: c, id: x } }\n'],
    ['a time', '  - rest: { wait: PT1S }\n'],
    [
      'a request that must not be made twice',
      get('own', '${ .next }', ', metadata: { tenon: { local: false } }'),
    ],
    [
      'two at once',
      `  - both: { fork: { branches: [ { ${get('l').trim().slice(2)} }, { ${get('r').trim().slice(2)} } ] } }\n`,
    ],
  ])('nothing is beyond %s', async (_what, between) => {
    const { asked, foreseen } = await seen(get('a') + get('b') + between + get('last', 'http://z/'))
    expect(foreseen[0]).toEqual(asked.slice(1, 2))
    expect(foreseen[1]).toEqual([])
    expect(foreseen.at(-1)).toEqual([])
  })

  test('nothing is where something else goes on', async () => {
    const beside = `  - both: { fork: { branches: [ { rest: { wait: PT1M } }, { some: { do: [ { ${get('l').trim().slice(2)} }, { ${get('r').trim().slice(2)} } ] } } ] } }\n`
    expect((await seen(beside)).foreseen).toEqual([[], []])
  })

  test('nor where to know it takes too much', async () => {
    const dear = '  - dear: { set: { next: \'${ [range(20000)] | add | tostring | "http://b/" + . }\' } }\n'
    expect((await seen(get('a') + dear + get('b'))).foreseen).toEqual([[], []])
    // What costs too much is a fault here: what would follow from that is not the course of the run.
    const caught = `  - risk: { try: [ { ${dear.trim().slice(2)} } ], catch: { do: [ { ${get('never').trim().slice(2)} } ] } }\n`
    expect((await seen(get('a') + caught + get('b'))).foreseen).toEqual([[], []])
  })

  test('a loop without an end of its own is given up', async () => {
    const { asked } = await seen(get('a'))
    expect(asked).toHaveLength(1)
    const ir = compiled(
      `${HEAD}do:\n${get('a')}  - many: { for: { each: n, in: '\${ [range(500)] }' }, do: [ { one: { set: { n: 1 } } } ] }\n${get('b', 'http://b/')}`,
    )
    const seer = new Seer(ir)
    const run = seer.until(runFlow(ir, { url: 'http://a/' }, seer, INFO))
    await expect(run).rejects.toThrow('too long')
  })
})

test('whatever the flow: what is foreseen is what is asked next', async () => {
  const name = (n: number) => `t${n}`
  const { task } = fc.letrec<{ task: string; list: string[] }>((tie) => ({
    list: fc.array(tie('task'), { minLength: 1, maxLength: 4 }),
    task: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom(
        'call: http, with: { method: get, endpoint: "${ .next // $workflow.input.url }" }',
        'call: http, with: { method: head, endpoint: "http://b/" }',
        'call: http, with: { method: get, endpoint: "${ $workflow.input.url }" }, timeout: { after: PT9S }',
        'call: http, if: "${ .n != 9 }", with: { method: get, endpoint: "${ .next // \\"http://c/\\" }" }, output: { as: "${ . + { seen: true } }" }',
        'set: { n: "${ (.n // 0) + 1 }" }',
        'wait: PT1S',
        'call: collection.create, with: { name: c, document: {} }',
        'call: http, with: { method: post, endpoint: "http://d/" }',
      ),
      tie('list').map((list) => `do: [ ${listed(list)} ]`),
      tie('list').map((list) => `for: { each: n, in: "\${ [1, 2] }" }, do: [ ${listed(list)} ]`),
      tie('list').map((list) => `try: [ ${listed(list)} ], catch: { do: [ { no: { set: { n: 0 } } } ] }`),
      tie('list').map(
        (list) => `fork: { branches: [ { l: { do: [ ${listed(list)} ] } }, { r: { set: { n: 2 } } } ] }`,
      ),
    ),
  }))
  const listed = (list: readonly string[]) => list.map((one, n) => `{ ${name(n)}: { ${one} } }`).join(', ')
  let [foreseen, begun] = [0, 0]
  await fc.assert(
    fc.asyncProperty(fc.array(task, { minLength: 1, maxLength: 5 }), async (tasks) => {
      const lines = tasks.map((one, n) => `  - ${name(n)}: { ${one} }\n`).join('')
      const seer = await seen(lines)
      if (seer.first !== undefined) begun += 1
      if (seer.first !== undefined) expect(lineOf(seer.first)).toBe(seer.asked[0])
      for (const [n, ahead] of seer.foreseen.entries()) {
        expect(ahead).toEqual(seer.asked.slice(n + 1, n + 1 + ahead.length))
        foreseen += ahead.length
      }
    }),
    { seed: 8, numRuns: repeated(20, 80) },
  )
  expect(foreseen).toBeGreaterThan(repeated(25, 100))
  expect(begun).toBeGreaterThan(repeated(4, 20))
})
