/** Generates flows that compile, with any nesting, any jumps, and names that have a meaning elsewhere. */

import fc from 'fast-check'

/** A task by its name, as a definition has it. */
type Task = Readonly<Record<string, unknown>>

const HEAD = { document: { dsl: '1.0.3', namespace: 'n', name: 'x', version: '1.0.0' } }

/** Texts that have a meaning in Mermaid, HTML, Markdown, JSON pointers or JavaScript. */
const NAMES = [
  'a',
  'End',
  'subgraph',
  'click n1 call x()',
  '"]) --> n9',
  '<img src=x onerror=alert(1)>',
  '</script>',
  '&lt;b&gt; #lt; #60;',
  'ﬂ°°60¶ß',
  '$$x^2$$',
  '`code` **b** 1. - _i_',
  '%%{init: {}}%%',
  '%% comment',
  'a/b~c',
  'a~1b',
  '__proto__',
  'constructor',
  'two\nlines\r\n\u2028\t',
  '\u202e\u0000\u200d',
  '🦊 ü 名',
]

/** A plan of a task; names and jump targets are chosen once its list is complete. */
interface Plan {
  readonly name: string
  readonly if: boolean | undefined
  readonly jump: number
  readonly body: Body
}

type Body =
  | { readonly kind: 'set'; readonly n: number }
  | { readonly kind: 'raise'; readonly status: number }
  | { readonly kind: 'switch'; readonly jumps: readonly number[]; readonly hasDefault: boolean }
  | { readonly kind: 'do' | 'fork'; readonly list: readonly Plan[] }
  | { readonly kind: 'for'; readonly list: readonly Plan[]; readonly items: number; readonly when: boolean }
  | {
      readonly kind: 'try'
      readonly list: readonly Plan[]
      readonly handler: readonly Plan[] | undefined
      readonly retry: boolean
      readonly jump: number
    }

const jump = fc.nat(12)
const name = fc.oneof(fc.constantFrom(...NAMES), fc.string({ unit: 'grapheme', maxLength: 6 }))

const arbitraryPlans = (forks: boolean) =>
  fc.letrec<{ plan: Plan; list: Plan[]; body: Body }>((tie) => ({
    list: fc.array(tie('plan'), { minLength: 1, maxLength: 4 }),
    plan: fc.record({
      name,
      if: fc.option(fc.boolean(), { nil: undefined, freq: 2 }),
      jump,
      body: tie('body'),
    }),
    body: fc.oneof(
      { maxDepth: 4, depthSize: 'medium' },
      fc.record({ kind: fc.constant('set' as const), n: fc.nat(3) }),
      fc.record({ kind: fc.constant('raise' as const), status: fc.integer({ min: 1, max: 3 }) }),
      fc.record({
        kind: fc.constant('switch' as const),
        jumps: fc.array(jump, { minLength: 1, maxLength: 3 }),
        hasDefault: fc.boolean(),
      }),
      fc.record({ kind: fc.constant('do' as const), list: tie('list') }),
      ...(forks ? [fc.record({ kind: fc.constant('fork' as const), list: tie('list') })] : []),
      fc.record({
        kind: fc.constant('for' as const),
        list: tie('list'),
        items: fc.nat(3),
        when: fc.boolean(),
      }),
      fc.record({
        kind: fc.constant('try' as const),
        list: tie('list'),
        handler: fc.option(tie('list'), { nil: undefined }),
        retry: fc.boolean(),
        jump,
      }),
    ) as fc.Arbitrary<Body>,
  })).list

/** The text of a flow. @param forks whether branches may run concurrently */
export const flowTexts = (forks: boolean): fc.Arbitrary<string> =>
  arbitraryPlans(forks).map((plans) => JSON.stringify({ ...HEAD, do: listOf(plans) }, null, 1))

const nameOf = (plan: Plan, index: number) => `${plan.name}${index}`

function listOf(plans: readonly Plan[], apart = false): Task[] {
  const names = apart ? [] : plans.map(nameOf)
  return plans.map((plan, index) => Object.fromEntries([[nameOf(plan, index), taskOf(plan, names)]]))
}

/** Half of all tasks continue; the others jump anywhere. */
function aim(at: number, names: readonly string[]): string | undefined {
  const targets = ['end', 'exit', 'continue', ...names]
  return at < 6 ? undefined : targets[at % targets.length]
}

function taskOf({ if: condition, jump: at, body }: Plan, names: readonly string[]): Task {
  const next = aim(at, names)
  return {
    ...(condition !== undefined && { if: condition ? 'true' : '.no' }),
    ...bodyOf(body, names),
    ...thenOf(next),
  }
}

const thenOf = (next: string | undefined) => Object.fromEntries(next === undefined ? [] : [['then', next]])

function bodyOf(body: Body, names: readonly string[]): Task {
  switch (body.kind) {
    case 'set':
      return { set: { n: body.n } }
    case 'raise':
      return { raise: { error: { type: 'https://x.example/e', status: body.status } } }
    case 'switch':
      return { switch: casesOf(body, names) }
    case 'do':
      return { do: listOf(body.list) }
    case 'fork':
      return { fork: { branches: listOf(body.list, true) } }
    case 'for': {
      const items = Array.from({ length: body.items }, (_, n) => ({ n }))
      return { for: { in: items }, ...(body.when && { while: '.n != 2' }), do: listOf(body.list) }
    }
    case 'try': {
      const next = aim(body.jump, names)
      return {
        try: listOf(body.list),
        catch: {
          errors: { with: { status: 1 } },
          ...(body.retry && { retry: { limit: { attempt: { count: 1 } } } }),
          ...(body.handler !== undefined && { do: listOf(body.handler) }),
          ...thenOf(next),
        },
      }
    }
  }
}

function casesOf({ jumps, hasDefault }: Body & { kind: 'switch' }, names: readonly string[]): Task[] {
  return jumps.map((at, index) => {
    const isLast = hasDefault && index === jumps.length - 1
    const when = isLast ? {} : { when: `\${ .n == ${index} }` }
    return { [`c${index}`]: { ...when, ...thenOf(aim(at + 6, names)) } }
  })
}
