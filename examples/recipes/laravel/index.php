<?php

// As much of Laravel as routes/api.php needs. In your app this is what Laravel's own public/index.php does.

use Illuminate\Container\Container;
use Illuminate\Contracts\Routing\Registrar;
use Illuminate\Database\Capsule\Manager;
use Illuminate\Events\Dispatcher;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Illuminate\Routing\Router;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Facades\Route;
use Symfony\Component\HttpKernel\Exception\HttpExceptionInterface;

require is_file(__DIR__ . '/vendor/autoload.php') ? __DIR__ . '/vendor/autoload.php' : 'Illuminate/autoload.php';

$url = parse_url(getenv('DATABASE_URL'));
$app = new Container();
$database = new Manager($app);
$database->addConnection([
    'driver' => 'pgsql', 'host' => $url['host'], 'port' => $url['port'], 'database' => substr($url['path'], 1),
    'username' => rawurldecode($url['user']), 'password' => rawurldecode($url['pass']), 'charset' => 'utf8',
]);
$router = new Router(new Dispatcher($app), $app);
$app->instance('db', $database->getDatabaseManager());
$app->instance('router', $router);
$app->instance(Registrar::class, $router);
Facade::setFacadeApplication($app);

Route::prefix('api')->group(__DIR__ . '/routes/api.php');
$request = Request::capture();
$app->instance(Request::class, $request);
try {
    $response = $router->dispatch($request);
} catch (Throwable $error) {
    $status = $error instanceof HttpExceptionInterface ? $error->getStatusCode() : 500;
    $response = new JsonResponse(['error' => $error->getMessage()], $status);
}
$response->send();
