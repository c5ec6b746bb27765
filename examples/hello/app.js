// A task arrives as POST /{kind}, its args as JSON. The status says how it went; a JSON answer is its output.
const kinds = { hello: async ({ name }) => ({ greeting: `Hello, ${name}!` }) }

require('http').createServer(async (req, res) => {
  let [status, output, body] = [404, 'no such kind', '']
  try {
    for await (const chunk of req.setEncoding('utf8')) body += chunk
    const run = kinds[req.url.slice(1)]
    if (run) [status, output] = [200, await run(JSON.parse(body))]
  } catch (error) { [status, output] = [500, String(error)] }
  console.log(req.method, req.url, body, status, output)
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(output))
}).listen(process.env.PORT || 8080, '127.0.0.1')
