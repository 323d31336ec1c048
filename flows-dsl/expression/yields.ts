/** Knows which expressions yield exactly one value, by looking at them alone. */

import { builtinYieldsOne } from './builtins/tables.ts'
import type { Expression, Pattern } from './expression.ts'

/** Whether a function or parameter of this name and arity yields one value where its arguments do; undefined for a builtin. */
export type YieldsOne = (called: string) => boolean | undefined

/** False where it is not certain. A function that calls itself is taken to yield one until it is shown not to. */
function yieldsOne(node: Expression, known: YieldsOne): boolean {
  const one = (child: Expression | null): boolean => child === null || yieldsOne(child, known)
  switch (node.op) {
    case 'identity':
    case 'literal':
    case 'variable':
    case 'array':
    case 'not':
    case 'format':
      return true
    case 'iterate':
    case 'comma':
    case 'foreach':
    case 'label':
    case 'break':
      return false
    case 'negate':
      return one(node.of)
    case 'index':
      return !node.optional && one(node.of) && one(node.key)
    case 'slice':
      return !node.optional && one(node.of) && one(node.from) && one(node.to)
    case 'object':
      return node.entries.every(([key, value]) => one(key) && one(value))
    case 'text':
      return node.parts.every(one)
    case 'pipe':
    case 'and':
    case 'or':
    case 'alternative':
    case 'binary':
      return one(node.left) && one(node.right)
    case 'assign':
      return node.operator === '|=' || one(node.right)
    case 'if':
      return node.branches.flat().every(one) && one(node.otherwise)
    case 'try':
      return node.handler !== null && one(node.body) && one(node.handler)
    case 'as':
      return one(node.source) && node.patterns.every(isPlain) && one(node.body)
    case 'reduce':
      return one(node.init)
    case 'define':
      return yieldsOne(node.rest, withFunction(node, known))
    case 'call': {
      const called = `${node.name}/${node.args.length}`
      const argumentsDo = node.args.every(one)
      const own = known(called)
      return own === undefined ? builtinYieldsOne(called, argumentsDo) : own && argumentsDo
    }
  }
}

/** Whether a pattern takes a value apart in one way. */
function isPlain(pattern: Pattern): boolean {
  if ('variable' in pattern) return true
  if ('array' in pattern) return pattern.array.every(isPlain)
  return pattern.object.every(
    ({ key, value }) => key.op === 'literal' && (value === undefined || isPlain(value)),
  )
}

interface Definition {
  readonly name: string
  readonly params: readonly string[]
  readonly body: Expression
}

/** Whether a function yields one value where its arguments do. */
export function functionYieldsOne({ name, params, body }: Definition, known: YieldsOne): boolean {
  const own = params.map((param) => `${param.replace('$', '')}/0`)
  const self = `${name}/${params.length}`
  return yieldsOne(body, (called) => called === self || own.includes(called) || known(called))
}

function withFunction(node: Definition, known: YieldsOne): YieldsOne {
  const self = `${node.name}/${node.params.length}`
  const one = functionYieldsOne(node, known)
  return (called) => (called === self ? one : known(called))
}
