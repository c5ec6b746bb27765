// The shop of the recipes on node:http and pg.
import http from 'node:http'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', (error) => console.error('idle connection:', error.message)) // without it a restart of Postgres ends the app

// transaction commits what work does, or nothing of it.
async function transaction(work) {
  const client = await pool.connect()
  let broken
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch((failed) => { broken = failed })
    throw error
  } finally {
    client.release(broken)
  }
}

// For people: the order and its task, both or neither.
async function takeOrder(order) {
  return transaction(async (client) => {
    const { rows: [{ id }] } = await client.query(
      'insert into orders (customer, cents) values ($1, $2) returning id', [order.customer, order.cents])
    await client.query(`select sched.enqueue('invoice', jsonb_build_object('order', $1::bigint))`, [id])
    return { order: Number(id) } // pg gives a bigint as text
  })
}

// For the sidecar: the invoice and the end of the task, both or neither.
async function writeInvoice(task, headers) {
  return transaction(async (client) => {
    const { rows: [invoice] } = await client.query(
      'insert into invoices (order_id, cents) select id, cents from orders where id = $1 returning number', [task.order])
    if (!invoice) throw Object.assign(new Error(`no order ${task.order}`), { status: 410 }) // trying again is pointless
    const output = { invoice: Number(invoice.number) }
    await client.query('select sched.complete($1, $2, $3)', [headers['sched-task-id'], headers['sched-lease'], output])
    return output
  })
}

const routes = {
  'POST /orders': async (body) => [201, await takeOrder(body)],
  'POST /invoice': async (body, headers) => [200, await writeInvoice(body, headers)],
}

http.createServer(async (request, response) => {
  let status, answer
  try {
    const route = routes[`${request.method} ${request.url}`]
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    ;[status, answer] = route
      ? await route(JSON.parse(Buffer.concat(chunks)), request.headers)
      : [404, { error: 'this app has no such kind' }]
  } catch (error) {
    // SC409: another attempt has the task, and ours left nothing behind. Anything else: try again.
    status = error.status ?? (error.code === 'SC409' ? 409 : 500)
    answer = { error: error.message }
  }
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
}).listen(process.env.PORT ?? 8080, '127.0.0.1')
