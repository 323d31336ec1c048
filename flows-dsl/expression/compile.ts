/** Knows which function compiles which form of an expression. */

import { callBuiltin } from './builtins/call.ts'
import type { Expression } from './expression.ts'
import type { Filter } from './filter.ts'
import { compileAssign } from './nodes/assign.ts'
import {
  compileAlternative,
  compileBinary,
  compileComma,
  compileLiteral,
  compileLogic,
  compileNegate,
  compileNot,
  compilePipe,
  compileVariable,
} from './nodes/basic.ts'
import { compileAs, compileForeach, compileReduce } from './nodes/bind.ts'
import { compileArray, compileFormat, compileObject, compileText } from './nodes/build.ts'
import { callFunction, callParameter, compileDefine } from './nodes/calls.ts'
import { compileBreak, compileIf, compileLabel, compileTry } from './nodes/control.ts'
import { compileIndex, compileIterate, compileSlice, IDENTITY } from './nodes/paths.ts'
import { Scope } from './scope.ts'

const COMPILED = new WeakMap<Expression, Filter>()

/** The expression as a filter; each is compiled once. */
export function filterOf(expression: Expression): Filter {
  const known = COMPILED.get(expression)
  if (known !== undefined) return known
  const filter = compileNode(expression, new Scope())
  COMPILED.set(expression, filter)
  return filter
}

/** @param tail whether the outputs are those of a function, so that it may end with a call */
function compileNode(node: Expression, outer: Scope, tail = false): Filter {
  const scope = outer.inside(node)
  switch (node.op) {
    case 'identity':
      return IDENTITY
    case 'literal':
      return compileLiteral(node)
    case 'variable':
      return compileVariable(node, scope)
    case 'index':
      return compileIndex(node, scope, compileNode)
    case 'slice':
      return compileSlice(node, scope, compileNode)
    case 'iterate':
      return compileIterate(node, scope, compileNode)
    case 'object':
      return compileObject(node, scope, compileNode)
    case 'array':
      return compileArray(node, scope, compileNode)
    case 'comma':
      return compileComma(node, scope, compileNode, tail)
    case 'text':
      return compileText(node, scope, compileNode)
    case 'format':
      return compileFormat(node)
    case 'negate':
      return compileNegate(node, scope, compileNode)
    case 'not':
      return compileNot()
    case 'pipe':
      return compilePipe(node, scope, compileNode, tail)
    case 'and':
    case 'or':
      return compileLogic(node, scope, compileNode)
    case 'alternative':
      return compileAlternative(node, scope, compileNode, tail)
    case 'binary':
      return compileBinary(node, scope, compileNode)
    case 'assign':
    case 'if':
    case 'try':
    case 'as':
    case 'reduce':
    case 'foreach':
    case 'label':
    case 'break':
    case 'define':
    case 'call':
      return compileStatement(node, scope, tail)
  }
}

type Statement = Extract<
  Expression,
  {
    readonly op: 'assign' | 'if' | 'try' | 'as' | 'reduce' | 'foreach' | 'label' | 'break' | 'define' | 'call'
  }
>

function compileStatement(node: Statement, scope: Scope, tail: boolean): Filter {
  switch (node.op) {
    case 'assign':
      return compileAssign(node, scope, compileNode)
    case 'if':
      return compileIf(node, scope, compileNode, tail)
    case 'try':
      return compileTry(node, scope, compileNode)
    case 'as':
      return compileAs(node, scope, compileNode, tail)
    case 'reduce':
      return compileReduce(node, scope, compileNode)
    case 'foreach':
      return compileForeach(node, scope, compileNode)
    case 'label':
      return compileLabel(node, scope, compileNode)
    case 'break':
      return compileBreak(node, scope)
    case 'define':
      return compileDefine(node, scope, compileNode, tail)
    case 'call': {
      const found = scope.called(`${node.name}/${node.args.length}`)
      if (found === undefined) return callBuiltin(node, scope, compileNode, tail)
      if (typeof found === 'number') return callParameter(found, scope)
      return callFunction(found, node.args, scope, compileNode, tail)
    }
  }
}
