<?php

use Illuminate\Database\QueryException;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Route;

// For people: the order and its task, both or neither.
Route::post('/orders', function (Request $request) {
    $id = DB::transaction(function () use ($request) {
        $id = DB::table('orders')->insertGetId($request->only('customer', 'cents'));
        DB::select("select sched.enqueue('invoice', jsonb_build_object('order', ?::bigint))", [$id]);

        return $id;
    });

    return new JsonResponse(['order' => $id], 201);
});

// For the sidecar: the invoice and the end of the task, both or neither.
Route::post('/invoice', function (Request $request) {
    $order = DB::table('orders')->find($request->input('order'));
    if ($order === null) {
        return new JsonResponse(['error' => 'no such order'], 410); // trying again is pointless
    }
    try {
        $output = DB::transaction(function () use ($request, $order) {
            $number = DB::table('invoices')->insertGetId(['order_id' => $order->id, 'cents' => $order->cents], 'number');
            $output = ['invoice' => $number];
            DB::select('select sched.complete(?, ?, ?)',
                [$request->header('Sched-Task-Id'), $request->header('Sched-Lease'), json_encode($output)]);

            return $output;
        });
    } catch (QueryException $error) {
        if ($error->getCode() !== 'SC409') {
            throw $error; // Laravel answers 500: try again
        }

        return new JsonResponse(['error' => $error->getMessage()], 409); // another attempt has the task, and ours left nothing behind
    }

    return new JsonResponse($output);
});
